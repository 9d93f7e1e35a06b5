/* libcurl, which is loaded when something is to be downloaded. Linked to, it would bring thirty libraries into every
 * start of the program and into every worker: 5 ms and 4 MB, for what most of them never do. */
#ifndef KN_CATALOG_LIBRARY_H
#define KN_CATALOG_LIBRARY_H

#include <curl/curl.h>

#include "base/error.h"

/* What is used of it, by its name without "curl_". */
#define KN_CURL_FUNCTIONS(F)                                                                                           \
    F(easy_cleanup)                                                                                                    \
    F(easy_getinfo)                                                                                                    \
    F(easy_init)                                                                                                       \
    F(easy_setopt)                                                                                                     \
    F(easy_strerror)                                                                                                   \
    F(free)                                                                                                            \
    F(global_init)                                                                                                     \
    F(multi_add_handle)                                                                                                \
    F(multi_cleanup)                                                                                                   \
    F(multi_info_read)                                                                                                 \
    F(multi_init)                                                                                                      \
    F(multi_perform)                                                                                                   \
    F(multi_poll)                                                                                                      \
    F(multi_remove_handle)                                                                                             \
    F(slist_append)                                                                                                    \
    F(slist_free_all)                                                                                                  \
    F(url)                                                                                                             \
    F(url_cleanup)                                                                                                     \
    F(url_get)                                                                                                         \
    F(url_set)

typedef struct kn_curl_functions {
#define KN_CURL_MEMBER(name) KN_TYPE_OF(curl_##name) * name;
    KN_CURL_FUNCTIONS(KN_CURL_MEMBER)
#undef KN_CURL_MEMBER
} kn_curl_functions;

/* To be used after it has been loaded. */
extern kn_curl_functions kn_curl;

/* From any thread; again: nothing. */
bool kn_curl_load(kn_error *err);

#endif
