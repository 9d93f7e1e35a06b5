/* Whether there is an Ollama behind the gateway: asked when the gateway begins to listen, and again and again as long
 * as there is none, so that people who have started a server know what they have. The log is told when that changes. */
#ifndef KN_GATEWAY_PRESENCE_H
#define KN_GATEWAY_PRESENCE_H

#include "http/call.h"

typedef enum kn_presence_kind {
    KN_PRESENCE_UNKNOWN,
    KN_PRESENCE_THERE,
    KN_PRESENCE_ABSENT,
    KN_PRESENCE_SILENT, /* something listens and says nothing */
    KN_PRESENCE_OTHER,  /* something answers and is no Ollama */
    KN_PRESENCE_COUNT,
} kn_presence_kind;

typedef struct kn_presence {
    kn_loop *loop;
    kn_upstream *upstream;
    const kn_address *address;
    void (*log)(void *ctx, const char *line);
    void *ctx;

    kn_call *call; /* under way; NULL: none */
    kn_timer again;
    kn_presence_kind kind; /* as the log has it */
    int64_t checked_s;     /* 0: never looked */
    bool reachable;
    char version[64]; /* as the upstream has it; empty: none was heard */
} kn_presence;

/* The first five are set, all else is zero. */
void kn_presence_begin(kn_presence *p);

/* While the loop does not turn, before the upstream goes. Without a beginning: nothing. */
void kn_presence_end(kn_presence *p);

/* For whoever asks on their own account: the question, and what became of it (NULL: it could not be asked). */
extern const kn_call_request kn_presence_question;
void kn_presence_take(kn_presence *p, const kn_call_result *r);

#endif
