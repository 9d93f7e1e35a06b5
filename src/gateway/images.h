/* Pictures for clients: /kuno/v1/images/ on both doors.
 *
 *     POST generate         a recipe of a workflow (workers/recipe.h) ──► a PNG file, when it is drawn
 *     GET previews/ID       how far the picture has come whose request named itself so
 *     GET workflows         what can be asked for
 *
 * A recipe is checked as soon as it is there, and is then in memory until its picture is drawn: there are at most two
 * of them, whatever clients send. A picture takes its turn (easel.h) and is drawn by the image worker
 * (workers/painter.h); when its client leaves it is cancelled. Nothing of it is kept or logged. Internal to the room.
 */
#ifndef KN_GATEWAY_IMAGES_H
#define KN_GATEWAY_IMAGES_H

#include <jansson.h>

#include "gateway/internal.h"

bool kn_images_new(kn_gateway *g, kn_images **ret, kn_error *err);

/* After the servers: nobody is there any more who could be answered. NULL is fine. */
void kn_images_free(kn_images *m);

/* Whether a request is for one of these routes. */
bool kn_images_are_meant(const kn_head *head);

/* Takes over the exchange, whose client may use these routes. */
void kn_images_serve(kn_images *m, kn_exchange *x, const kn_head *head);

/* Nobody waits any longer for a picture: clients are told that the service stops. Whether there was one. */
bool kn_images_cut(kn_images *m);

/* Pictures whose clients have not been answered. */
bool kn_images_are_wanted(const kn_images *m);

/* For the status: NULL: no pictures are drawn. */
json_t *kn_images_status_json(kn_images *m);

#endif
