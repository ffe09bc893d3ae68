/* A plugin that is linked to the library that knows which one it is. */
const char* which(void);
const char* which_of_needed(void) { return which(); }
