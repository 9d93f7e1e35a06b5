/* From a request to what a job needs: everything about this machine is looked up, the plan is made. In the disk's
 * thread. Internal to the room. */
#ifndef KN_STUDIO_PREPARE_H
#define KN_STUDIO_PREPARE_H

#include "studio/internal.h"

typedef struct kn_prepared {
    kn_studio_request request;
    kn_studio_plan plan;
    kn_studio_settings settings;
    kn_model_list models;
    kn_upscaler_list upscalers;
} kn_prepared;

/* Settings, profiles and upscalers, as they are now. */
bool kn_prepare_machine(const kn_studio *s, kn_store *store, kn_prepared *ret, kn_error *err);

/* The profile that a name means; empty: the one that has been activated, else the one that models.toml chooses. NULL:
 * there is none, and the second says why. */
const kn_model_profile *kn_prepared_profile(const kn_prepared *p, const char *name);
const char *kn_prepared_lacks(const char *name);

/* The active one, or any while none is: for what has to be told, or enlarged, without one. */
const kn_model_profile *kn_prepared_any(const kn_prepared *p);

/* wish: NULL: none. What is wrong with the request: KN_E_USAGE and others with a pointer; KN_E_NOT_FOUND with the
 * pointer of what is named and not there. */
bool kn_prepare(const kn_studio *s, kn_store *store, const char *text, size_t len, bool upscale,
                const kn_plan_wish *wish, kn_prepared *ret, kn_buf *pointer, kn_error *err);

void kn_prepared_free(kn_prepared *p);

/* A wish as it is kept with a job, JSON; NULL: memory is out. And back. */
char *kn_plan_wish_text(const kn_plan_wish *wish);
bool kn_plan_wish_read(const char *text, kn_plan_wish *ret, kn_error *err);

/* One for each picture, as JSON: those of the request, or random ones. NULL: memory or randomness is out. */
char *kn_prepared_seeds(const kn_prepared *p);

#endif
