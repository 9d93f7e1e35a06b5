/* The studio of `kuno serve`: its listener, its folder and its image worker, beside the gateway on one loop. */
#ifndef KN_CLI_SERVE_STUDIO_H
#define KN_CLI_SERVE_STUDIO_H

#include "gateway/gateway.h"

typedef struct kn_serve_studio kn_serve_studio;

typedef struct kn_serve_studio_setup {
    kn_loop *loop;
    const kn_config *config; /* must outlive the studio */
    const char *token;       /* copied */
    kn_gateway *gateway;     /* whose worker draws */
    void (*log)(void *ctx, const char *line);
    void (*leave)(void *ctx); /* a client wants the service to end */
    void *ctx;
} kn_serve_studio_setup;

bool kn_serve_studio_new(const kn_serve_studio_setup *setup, kn_serve_studio **ret, kn_error *err);

/* Nothing new is taken, and no job begins: who waits for one is told so. Calls `stopped` when the one that runs has
 * ended and everybody has been answered. */
void kn_serve_studio_stop(kn_serve_studio *s, void (*stopped)(void *ctx), void *ctx);

/* Afterwards: what is still being drawn is put off, and who waits for it is told so. */
void kn_serve_studio_cut(kn_serve_studio *s);

/* After the loop has ended, and before the gateway goes. NULL is fine. */
void kn_serve_studio_free(kn_serve_studio *s);

#endif
