// One of the libraries that exist for their name: it brings libmsmemscope_core.so along, which lies beside it.
#define MSMEMSCOPE_TEXT(name) #name
#define MSMEMSCOPE_NOTE(name) MSMEMSCOPE_TEXT(name)

// Not looked up by anybody; tells the files apart.
__attribute__((used)) static const char kName[] = "msmemscope: " MSMEMSCOPE_NOTE(MSMEMSCOPE_LIBRARY);
