/* What a server says before it sends: the lines that decide what its bytes are. Reads any bytes. */
#ifndef KN_CATALOG_ANSWER_H
#define KN_CATALOG_ANSWER_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { KN_ETAG_BYTES = 256 };

#define KN_SIZE_UNKNOWN UINT64_MAX

typedef struct kn_answer {
    bool has_range;               /* Content-Range: bytes first-last/total */
    uint64_t first, last;         /* both included */
    uint64_t total;               /* KN_SIZE_UNKNOWN: the server does not say */
    uint64_t length;              /* Content-Length; KN_SIZE_UNKNOWN: none */
    char etag[KN_ETAG_BYTES];     /* with its quotes; empty: none, or a weak one, which says too little */
    bool is_encoded, is_nonsense; /* compressed; says something twice or in a way that nobody understands */
} kn_answer;

void kn_answer_begin(kn_answer *a);

/* A line as it came, with or without CR LF. A status line begins anew, as after "100 Continue". */
void kn_answer_line(kn_answer *a, const char *line, size_t len);

/* Whether it is a strong entity tag that can be given back to a server. */
bool kn_etag_is_strong(const char *text, size_t len);

#endif
