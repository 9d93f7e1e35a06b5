#include "catalog/library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

kn_curl_functions kn_curl;

static bool is_loaded;

/* dlsym gives functions as pointers to data; ISO C has no cast for that. */
static bool find(void *library, const char *name, void *into) {
    void *symbol = dlsym(library, name);
    memcpy(into, &symbol, sizeof symbol);
    return symbol;
}

/* It stays loaded: threads of its own may have begun. */
static void load(void) {
    void *library = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
    bool ok = library;
#define KN_CURL_FIND(name) ok = ok && find(library, "curl_" #name, &kn_curl.name);
    KN_CURL_FUNCTIONS(KN_CURL_FIND)
#undef KN_CURL_FIND
    is_loaded = ok && kn_curl.global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
}

bool kn_curl_load(kn_error *err) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load);
    return is_loaded || kn_fail(err, KN_E_UNSUPPORTED, "downloads need libcurl 7.85 or later, which is not installed");
}
