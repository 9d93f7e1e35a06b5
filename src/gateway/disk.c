#include "gateway/disk.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct kn_disk {
    kn_loop *loop;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    kn_job *first, *last;
    bool ends;
};

static void *work(void *arg) {
    kn_disk *d = arg;
    pthread_mutex_lock(&d->lock);
    while (d->first || !d->ends) {
        kn_job *job = d->first;
        if (!job) {
            pthread_cond_wait(&d->changed, &d->lock);
            continue;
        }
        d->first = job->next;
        pthread_mutex_unlock(&d->lock);
        job->work(job);
        kn_loop_post(d->loop, &job->done);
        pthread_mutex_lock(&d->lock);
    }
    pthread_mutex_unlock(&d->lock);
    return NULL;
}

bool kn_disk_new(kn_loop *loop, kn_disk **ret, kn_error *err) {
    kn_disk *d = calloc(1, sizeof *d);
    if (!d)
        return kn_fail_nomem(err, sizeof *d);
    d->loop = loop;
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->changed, NULL);
    int failed = pthread_create(&d->thread, NULL, work, d);
    if (failed) {
        pthread_cond_destroy(&d->changed);
        pthread_mutex_destroy(&d->lock);
        free(d);
        return kn_fail(err, KN_E_IO, "a thread cannot be started: %s", strerror(failed));
    }
    *ret = d;
    return true;
}

void kn_disk_free(kn_disk *d) {
    if (!d)
        return;
    pthread_mutex_lock(&d->lock);
    d->ends = true;
    pthread_cond_signal(&d->changed);
    pthread_mutex_unlock(&d->lock);
    pthread_join(d->thread, NULL);
    pthread_cond_destroy(&d->changed);
    pthread_mutex_destroy(&d->lock);
    free(d);
}

void kn_disk_do(kn_disk *d, kn_job *job) {
    pthread_mutex_lock(&d->lock);
    job->next = NULL;
    if (d->first)
        d->last->next = job;
    else
        d->first = job;
    d->last = job;
    pthread_cond_signal(&d->changed);
    pthread_mutex_unlock(&d->lock);
}
