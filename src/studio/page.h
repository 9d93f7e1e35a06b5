/* The page itself: the files of web/, which are part of the program, at / and below /web/. Whoever can reach the
 * listener may read them; nothing in them is secret, and all that they do goes through the API. */
#ifndef KN_STUDIO_PAGE_H
#define KN_STUDIO_PAGE_H

#include "http/exchange.h"
#include "studio/files.h"

/* Of all files together: it changes when any of them does. */
typedef struct kn_page {
    kn_sha256 version;
} kn_page;

bool kn_page_open(kn_page *ret, kn_error *err);

/* Answers if it is a file of the page that is asked for; false: it is not. */
bool kn_page_answers(const kn_page *p, kn_exchange *x, const kn_head *head);

#endif
