#include "cli/generate_save.h"

#include <limits.h>
#include <signal.h>

#include "cli/save.h"
#include "image/write.h"

enum { FILE_LIMIT = 1 << 30, TEXT_LIMIT = 4 << 20 };

void kn_saving_init(kn_saving *s) {
    *s = (kn_saving){ .runs = false };
    kn_buf_init(&s->parameters, TEXT_LIMIT);
    kn_buf_init(&s->name, PATH_MAX);
}

void kn_saving_free(kn_saving *s) {
    kn_image_free(&s->picture);
    kn_buf_free(&s->parameters);
    kn_buf_free(&s->name);
}

static void *save(void *ctx) {
    kn_saving *s = ctx;
    const kn_image_form form = { .kind = kn_save_kind(s->name.data),
                                 .quality = KN_IMAGE_QUALITY,
                                 .parameters = s->metadata ? s->parameters.data : NULL };
    KN_AUTO_BUF file;
    kn_buf_init(&file, FILE_LIMIT);
    if (kn_image_write(&s->picture, &form, &file, &s->err))
        (void)kn_save(s->name.data, s->clobber, file.data, file.len, &s->err);
    atomic_store(&s->done, true);
    return NULL;
}

void kn_saving_begin(kn_saving *s) {
    sigset_t all, before; /* signals are for the thread that knows what to do with them */
    s->runs = true;
    s->err = (kn_error){ 0 };
    atomic_store(&s->done, false);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    s->threaded = pthread_create(&s->thread, NULL, save, s) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!s->threaded)
        save(s);
}

bool kn_saving_end(kn_saving *s) {
    if (s->threaded)
        pthread_join(s->thread, NULL);
    s->runs = s->threaded = false;
    atomic_store(&s->done, false);
    kn_image_free(&s->picture);
    kn_buf_clear(&s->parameters);
    return s->err.code == KN_OK;
}
