/* A library that knows which one it is. */
const char* which(void) { return WHICH; }
