/* Answers of our own routes. All of them carry X-Content-Type-Options: nosniff and Cache-Control: no-store. */
#ifndef KN_HTTP_REPLY_H
#define KN_HTTP_REPLY_H

#include <jansson.h>

#include "http/exchange.h"

/* The document as compact JSON. Takes over the reference; NULL (memory was out while it was made) becomes 500. */
void kn_reply_json(kn_exchange *x, unsigned status, json_t *document);
void kn_reply_json_with(kn_exchange *x, unsigned status, json_t *document, const char *fields); /* and these lines */

/* A problem document (RFC 9457): {"type":"urn:kuno:problem:not-found","title","status","code":"not_found","detail"}.
 * Texts are ours, never the client's. */
typedef struct kn_problem {
    unsigned status;
    const char *code;       /* not_found */
    const char *title;      /* the same for every problem of this code */
    const char *detail;     /* may be NULL */
    const char *pointer;    /* JSON Pointer of the member that is wrong, or "header/NAME"; may be NULL */
    const char *fields;     /* further header lines, each with its CR LF; may be NULL */
    unsigned retry_after_s; /* 0: none */
} kn_problem;

/* Or whatever the exchange's dialect makes of it. */
void kn_reply_problem(kn_exchange *x, const kn_problem *p);

/* An error that the server has found by itself, before or beside every route. */
void kn_reply_status(kn_exchange *x, unsigned status);

/* The words of a status: "Not Found". */
const char *kn_status_reason(unsigned status);

#endif
