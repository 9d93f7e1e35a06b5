/* What the tests of the studio share: a folder that is made and removed again, and a request as JSON text. */
#ifndef KN_STUDIO_TEST_H
#define KN_STUDIO_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "studio/gallery.h"

static char folder[64];

static inline int make_folder(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/kuno-studio-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static inline int remove_folder(void **state) {
    (void)state;
    pid_t pid = fork();
    if (pid == 0) {
        execlp("rm", "rm", "-rf", folder, (char *)NULL);
        _exit(1);
    }
    return waitpid(pid, NULL, 0) == pid ? 0 : -1;
}

enum { STORE_WAIT_MS = 200 };

static inline kn_store *open_store(void) {
    kn_store *s = NULL;
    kn_error err = { 0 };
    if (!kn_store_open(folder, STORE_WAIT_MS, &s, &err))
        fail_msg("%s", err.text);
    return s;
}

#define GOOD(call)                                                                                                     \
    do {                                                                                                               \
        kn_error err = { 0 };                                                                                          \
        if (!(call))                                                                                                   \
            fail_msg("%s", err.text);                                                                                  \
    } while (0)

#define REFUSED(call, wanted)                                                                                          \
    do {                                                                                                               \
        kn_error err = { 0 };                                                                                          \
        assert_false(call);                                                                                            \
        assert_int_equal(err.code, (wanted));                                                                          \
    } while (0)

#define REQUEST "{\"prompt\":\"a red boat\"}"

static inline kn_id add_job(kn_store *s) {
    kn_id id;
    const kn_new_job job = {
        .kind = KN_KIND_TEXT_TO_IMAGE, .request = REQUEST, .plan = "null", .seeds = "[\"7\"]", .notes = "[]"
    };
    GOOD(kn_jobs_add(s, &job, 100, &id, &err));
    return id;
}

/* The member of a job as clients see it, for one statement. */
static inline const char *member_of(kn_store *s, const kn_id *id, const char *name) {
    static char text[200];
    json_t *job = NULL;
    GOOD(kn_jobs_get(s, id->text, &job, NULL, &err));
    const json_t *value = json_object_get(job, name);
    if (json_is_string(value))
        snprintf(text, sizeof text, "%s", json_string_value(value));
    else if (json_is_integer(value))
        snprintf(text, sizeof text, "%lld", (long long)json_integer_value(value));
    else
        snprintf(text, sizeof text, "%s", value ? "other" : "missing");
    json_decref(job);
    return text;
}

#endif
