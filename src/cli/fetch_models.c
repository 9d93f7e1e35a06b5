/* kuno fetch-models: downloads a collection of the catalogue, or tells what there is. */
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/suggest.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/fetch_progress.h"
#include "cli/report.h"
#include "cli/signals.h"

enum { TEXT_LIMIT = 1 << 20 };

typedef struct fetch_options {
    const char *collection, *directory, *mirror;
    kn_given_integer timeout, tries;
    bool accept_licence, offline, json, quiet;
} fetch_options;

#define AT(member) offsetof(fetch_options, member)

static const kn_option options[] = {
    KN_OPT_GROUP("What to fetch"),
    KN_OPT(TEXT, 0, NULL, "COLLECTION", AT(collection),
           "a collection, or one file of it, by its name; without one, all that there are are listed"),
    KN_OPT(PATH, 'd', "directory", "DIR", AT(directory), "folder of models, made if it is not there"),
    KN_OPT(FLAG, 0, "accept-licence", NULL, AT(accept_licence), "you have read the licence and agree to it"),

    KN_OPT_GROUP("Network"),
    KN_OPT(TEXT, 0, "mirror", "URL", AT(mirror),
           "ask this server instead of Hugging Face: what is behind the address is the same"),
    KN_OPT(FLAG, 0, "offline", NULL, AT(offline), "use no network: only look whether the files are there and whole"),
    KN_OPT_RANGE(INTEGER, 0, "timeout", "S", AT(timeout), 1, 3600,
                 "seconds without a byte after which a connection is begun anew (default: 30)"),
    KN_OPT_RANGE(INTEGER, 0, "tries", "N", AT(tries), 1, 100, "how often in a row a connection may fail (default: 8)"),

    KN_OPT_GROUP("Output"),
    KN_OPT(FLAG, 0, "json", NULL, AT(json), "answer with one JSON object"),
    KN_OPT(FLAG, 'q', "quiet", NULL, AT(quiet), "show no progress"),

    KN_OPT_GROUP("Other"),
    KN_OPT_HELP,
};

static bool check(const void *given, kn_error *err) {
    const fetch_options *o = given;
    if (o->collection && !o->directory)
        return kn_fail(err, KN_E_USAGE,
                       "needs to know where the files go, like: kuno fetch-models %s --directory ~/models",
                       kn_quote_z(o->collection).text);
    if (o->mirror && o->offline)
        return kn_fail(err, KN_E_USAGE, "--offline uses no network, so no --mirror either");
    return true;
}

/* One run of the command. */
typedef struct work {
    const fetch_options *o;
    kn_collections *all;
    const kn_collection *collection; /* NULL: a single file */
    const kn_artifact *single;
    kn_origin origin;
    kn_fetch_show show;
    kn_fetch_result results[KN_COLLECTION_PARTS_MAX];
} work;

static size_t part_count(const work *w) {
    return w->collection ? w->collection->count : 1;
}

static const kn_artifact *part(const work *w, size_t i) {
    return w->collection ? w->collection->artifacts[i] : w->single;
}

static bool find(work *w, kn_error *err) {
    const char *name = w->o->collection;
    w->collection = kn_collection_named(w->all, name);
    w->single = kn_artifact_named(w->all, name);
    if (w->collection || w->single)
        return true;
    const char *known[KN_COLLECTIONS_MAX];
    for (size_t i = 0; i < w->all->collection_count; i++)
        known[i] = w->all->collections[i].id;
    return kn_fail(err, KN_E_NOT_FOUND, "there is no collection '%s'%s", kn_quote_z(name).text,
                   kn_suggest_choice(name, known, w->all->collection_count).text);
}

/* ---- what there is ---- */

static bool is_there(const work *w, const kn_artifact *a) {
    return w->o->directory && kn_artifact_is_there(a, w->o->directory);
}

static bool list_collection(const work *w, const kn_collection *c, kn_buf *out) {
    bool ok = kn_buf_printf(out, "%s  %s, %s\n", c->id, c->title, kn_bytes(kn_collection_bytes(c)).text);
    for (size_t i = 0; ok && i < c->count; i++) {
        const kn_artifact *a = c->artifacts[i];
        ok = kn_buf_printf(out, "  %s/%s  %s, %s%s\n", a->folder, a->name, kn_bytes(a->bytes).text, a->licence->title,
                           is_there(w, a) ? ", is there" : "");
    }
    return ok;
}

static json_t *artifact_json(const work *w, const kn_artifact *a) {
    return json_pack("{s:s, s:s, s:s, s:s+++, s:I, s:s, s:s, s:s, s:s, s:s, s:b}", "id", a->id, "title", a->title,
                     "role", a->role, "file", a->folder, "/", a->name, "", "bytes", (json_int_t)a->bytes, "sha256",
                     a->sha256, "repository", a->repository, "revision", a->revision, "licence", a->licence->title,
                     "licence_page", a->licence->page, "is_there", is_there(w, a));
}

static json_t *collection_json(const work *w, const kn_collection *c) {
    json_t *files = json_array();
    for (size_t i = 0; i < c->count; i++)
        json_array_append_new(files, artifact_json(w, c->artifacts[i]));
    return json_pack("{s:s, s:s, s:I, s:o}", "id", c->id, "title", c->title, "bytes",
                     (json_int_t)kn_collection_bytes(c), "files", files);
}

static bool print_json(json_t *document, kn_error *err) {
    KN_AUTO_BUF out;
    kn_buf_init(&out, TEXT_LIMIT);
    char *text = document ? json_dumps(document, JSON_INDENT(1)) : NULL;
    json_decref(document);
    bool ok = (text && kn_buf_printf(&out, "%s\n", text)) || kn_fail_nomem(err, TEXT_LIMIT);
    free(text);
    return ok && kn_print(&out, err);
}

static bool list(const work *w, kn_error *err) {
    const kn_collections *all = w->all;
    if (w->o->json) {
        json_t *items = json_array();
        for (size_t i = 0; i < all->collection_count; i++)
            json_array_append_new(items, collection_json(w, &all->collections[i]));
        return print_json(json_pack("{s:o}", "collections", items), err);
    }
    KN_AUTO_BUF out;
    kn_buf_init(&out, TEXT_LIMIT);
    bool ok = true;
    for (size_t i = 0; ok && i < all->collection_count; i++)
        ok = list_collection(w, &all->collections[i], &out);
    return (ok || kn_fail_nomem(err, TEXT_LIMIT)) && kn_print(&out, err);
}

/* ---- before anything is fetched ---- */

static bool is_first_of_licence(const work *w, size_t i) {
    for (size_t k = 0; k < i; k++)
        if (part(w, k)->licence == part(w, i)->licence)
            return false;
    return true;
}

/* Shown each time; without a word of agreement that is all. */
static bool agree(const work *w, kn_error *err) {
    for (size_t i = 0; i < part_count(w); i++) {
        const kn_licence *l = part(w, i)->licence;
        if (is_first_of_licence(w, i) && !w->o->quiet)
            fprintf(stderr, "kuno: '%s' comes under the %s: %s\n", w->o->collection, l->title, l->page);
    }
    return w->o->accept_licence || kn_fail(err, KN_E_USAGE,
                                           "'%s' comes under a licence of its own (%s); read it, and say "
                                           "--accept-licence if you agree",
                                           w->o->collection, part(w, 0)->licence->page);
}

static bool has_space(const work *w, kn_error *err) {
    uint64_t needed = 0, one, free_bytes = 0;
    for (size_t i = 0; i < part_count(w); i++) {
        if (!kn_artifact_space(part(w, i), w->o->directory, &one, &free_bytes, err))
            return false;
        needed += one;
    }
    return needed <= free_bytes ||
           kn_fail(err, KN_E_OUTPUT, "'%s' needs %s more on the disk, %s are free; nothing was fetched",
                   w->o->collection, kn_bytes(needed).text, kn_bytes(free_bytes).text);
}

/* ---- fetching ---- */

static void show(void *ctx, const kn_fetch_progress *p) {
    work *w = ctx;
    kn_fetch_show_progress(&w->show, p);
}

static bool stops(void *ctx) {
    (void)ctx;
    return kn_signals_stop();
}

/* What people can do themselves, where it is the server or the way there that fails. */
static void tell_by_hand(const work *w, const kn_artifact *a, kn_fetch_problem problem) {
    char *page;
    if ((problem == KN_FETCH_MOVED || problem == KN_FETCH_DENIED || problem == KN_FETCH_CORRUPT) &&
        kn_artifact_page(w->all, a, &page, NULL)) {
        fprintf(stderr, "kuno: by hand: '%s' of %s belongs to %s/%s/%s\n", a->name, page,
                kn_quote_path(w->o->directory).text, a->folder, a->name);
        free(page);
    }
}

static bool fetch_part(work *w, size_t i, kn_error *err) {
    const fetch_options *o = w->o;
    const kn_artifact *a = part(w, i);
    const kn_fetch f = { .origin = &w->origin,
                         .artifact = a,
                         .directory = o->directory,
                         .offline = o->offline,
                         .timeout_s = (unsigned)o->timeout.value,
                         .tries = (unsigned)o->tries.value,
                         .progress = show,
                         .stops = stops,
                         .ctx = w };
    kn_fetch_show_begin(&w->show, a->name, o->quiet);
    bool ok = kn_fetch_run(&f, &w->results[i], err);
    kn_fetch_show_end(&w->show);
    if (w->results[i].emptied_bytes)
        kn_warn("'%s.part' was of another size, with %" PRIu64 " bytes; it was emptied", a->name,
                w->results[i].emptied_bytes);
    if (!ok) {
        tell_by_hand(w, a, w->results[i].problem);
        return kn_fail_within(err, "'%s'", a->name);
    }
    if (!o->quiet && !o->json)
        fprintf(stderr, "kuno: %s: %s, %s\n", a->name, w->results[i].was_there ? "was there" : "fetched",
                "the SHA-256 is right");
    return true;
}

static bool tell(const work *w, kn_error *err) {
    json_t *files = json_array();
    for (size_t i = 0; i < part_count(w); i++) {
        const kn_artifact *a = part(w, i);
        json_array_append_new(files, json_pack("{s:s, s:s+++, s:I, s:s, s:b}", "id", a->id, "file", a->folder, "/",
                                               a->name, "", "bytes", (json_int_t)a->bytes, "sha256", a->sha256,
                                               "was_there", w->results[i].was_there));
    }
    return print_json(json_pack("{s:s, s:o}", "collection", w->o->collection, "files", files), err);
}

static bool fetch(work *w, kn_error *err) {
    const fetch_options *o = w->o;
    if (!find(w, err) ||
        (!o->offline && (!kn_origin_open(w->all, o->mirror, &w->origin, err) || !agree(w, err) || !has_space(w, err))))
        return false;
    for (size_t i = 0; i < part_count(w); i++)
        if (!fetch_part(w, i, err))
            return false;
    return !o->json || tell(w, err);
}

static int run(const void *given) {
    work w = { .o = given };
    kn_error err = { 0 };
    kn_signals_install(NULL, NULL);
    bool ok = kn_collections_load(&w.all, &err) && (w.o->collection ? fetch(&w, &err) : list(&w, &err));
    kn_origin_close(&w.origin);
    kn_collections_free(w.all);
    return ok ? 0 : kn_report("fetch-models", &err);
}

const kn_command kn_command_fetch_models = {
    .name = "fetch-models",
    .help = "Download models that are known to work, and check them",
    .options = options,
    .option_count = KN_COUNT(options),
    .given_bytes = sizeof(fetch_options),
    .check = check,
    .run = run,
};
