/* Who fetches: one download of the queue after the other, in a thread of its own. Internal to the room. */
#ifndef KN_STUDIO_FETCHER_H
#define KN_STUDIO_FETCHER_H

#include "studio/downloads.h"
#include "studio/internal.h"

/* What may be fetched, and from where: the studio's setup says. */
bool kn_fetcher_new(kn_studio *s, kn_fetcher **ret, kn_error *err);

/* Nothing is begun or told any more; what runs is stopped and waits for the next start. Before the disk's thread ends.
 */
void kn_fetcher_close(kn_fetcher *f);
void kn_fetcher_free(kn_fetcher *f);

/* There may be a download to begin with. */
void kn_fetcher_look(kn_fetcher *f);

/* It is not wanted any more as its row says. */
void kn_fetcher_stop(kn_fetcher *f, const char *id);

/* Puts what is known of the one that runs into what clients see of it. */
void kn_fetcher_show(const kn_fetcher *f, json_t *download);

const kn_collections *kn_fetcher_collections(const kn_fetcher *f);
bool kn_fetcher_is_offline(const kn_fetcher *f);

#endif
