/* What a request asks of a model, read from its whole body; and what a model's own description says about that.
 *
 * Only what decides where and how a model is loaded is read, in the first value alone, as the upstream does it, and
 * with keys compared without regard to case. A body that is not certain to be understood as the upstream does is no
 * wish: whoever sends it is served by the upstream itself. */
#ifndef KN_GATEWAY_WISH_H
#define KN_GATEWAY_WISH_H

#include "gateway/catalog.h"
#include "gateway/observer.h"
#include "http/head.h"

enum { KN_FACTS_BYTES = 16 << 20, KN_CONTEXT_MIN = 4 };

typedef struct kn_wish {
    char model[KN_MODEL_NAME_MAX + 1];
    bool has_input;
    bool at_once;            /* keep_alive is 0: the model is to go when this is done */
    uint64_t context_length; /* 0: not said */
    bool loads_otherwise;    /* an option would have the model loaded in another way than it is known to fit */
} kn_wish;

/* native: the routes of /api, which have options and keep_alive; the others ignore them. False: it is no wish. */
bool kn_wish_read(kn_span body, kn_input input, bool native, kn_wish *ret);

/* Whether a name stands for something that runs elsewhere: its tag is "cloud" or ends in "-cloud". */
bool kn_name_is_cloud(const char *name);

/* Whether it ends in ":local", which newer versions of the upstream take away: what is left is the model's name. */
bool kn_name_is_local(const char *name);

/* Whether a possible name has the parts that the upstream knows: host/namespace/model:tag, of which only the model must
 * be there, each within its limits. */
bool kn_name_is_well_formed(const char *name);

/* From an answer of /api/show. Models of different names, texts and parameters may have the same weights; they share
 * one load, which goes by the name of the one that was there first. */
typedef struct kn_model_facts {
    kn_digest weights;        /* of all its files with weights together; empty: not told */
    uint64_t trained_context; /* more than this is never loaded; 0: not told */
    uint64_t usual_context;   /* if the request says nothing; 0: the worker's */
} kn_model_facts;

bool kn_model_facts_read(const char *json, size_t len, kn_model_facts *ret, kn_error *err);

/* The context with which a worker that was given `worker_context` loads it. */
uint64_t kn_wish_context(const kn_wish *w, const kn_model_facts *f, uint64_t worker_context);

#endif
