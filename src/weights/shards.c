/* Models that are split over several files. An index, JSON, says in which file each tensor is:
 *
 *     {"metadata": {"total_size": 8}, "weight_map": {"norm.weight": "model-00001-of-00002.safetensors", …}}
 *
 * Index and files must say the same. The files, called shards, lie beside the index, under plain names. */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/json_reader.h"
#include "weights/container.h"
#include "weights/quantization.h"

enum {
    INDEX_BYTES_MAX = 16 << 20, /* 60 layers take about 200 kB */
    SHARDS_MAX = 1024,
    SHARD_NAME_MAX = 255,
    MISSING_ROOM = 240, /* bytes of a message that names shards */
};

typedef struct row {
    const char *tensor, *shard;
    size_t place; /* of the shard in the list of all */
    bool found;
} row;

typedef struct split {
    char *text; /* all names, each with its NUL */
    size_t text_len;
    row *rows;
    size_t count, room;
    const char **shard; /* [shard_count], by name, views of text */
    size_t shard_count;
    bool is_missing[SHARDS_MAX];
    kn_weights *joined; /* its parts are the shards */
    kn_error *err;
} split;

/* No string is longer decoded than written, and its NUL takes the place of a quote. */
static const char *keep(split *s, kn_json_text text) {
    char *copy = s->text + s->text_len;
    memcpy(copy, text.data, text.len);
    copy[text.len] = 0;
    s->text_len += text.len + 1;
    return copy;
}

/* Nothing that leads to another folder. */
static bool check_name(const char *name, kn_error *err) {
    size_t len = strlen(name);
    if (len == 0 || len > SHARD_NAME_MAX || strchr(name, '/') || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return kn_fail(err, KN_E_FORMAT, "the shard '%s' is no plain file name", kn_quote(name, len).text);
    return true;
}

static bool read_map(split *s, kn_json_reader *j) {
    kn_json_text name;
    kn_json_object(j);
    while (kn_json_key(j, &name)) {
        row *all = kn_array_grow(s->rows, s->count, &s->room, sizeof *all, s->err);
        if (!all)
            return false;
        s->rows = all;
        row r = { .tensor = keep(s, name) };
        if (!kn_json_string(j, &name))
            return false;
        r.shard = keep(s, name);
        if (!check_name(r.shard, s->err))
            return kn_fail_within(s->err, "tensor '%s'", kn_quote_name(r.tensor, strlen(r.tensor)).text);
        s->rows[s->count++] = r;
    }
    return !j->failed;
}

static bool read_document(split *s, kn_json_reader *j) {
    bool has_map = false;
    kn_json_text name;
    kn_json_object(j);
    while (kn_json_key(j, &name)) {
        if (!kn_json_is(name, "weight_map")) {
            kn_json_skip(j, NULL);
            continue;
        }
        if (has_map)
            return kn_fail(s->err, KN_E_FORMAT, "has 'weight_map' twice");
        has_map = true;
        if (!read_map(s, j))
            return false;
    }
    return kn_json_finish(j) &&
           (has_map || kn_fail(s->err, KN_E_FORMAT, "is not the index of a model: it has no weight_map"));
}

static bool read_index(split *s, const char *index, size_t len) {
    if (len > INDEX_BYTES_MAX)
        return kn_fail(s->err, KN_E_RANGE, "the index has %zu bytes, at most %d are allowed", len, INDEX_BYTES_MAX);
    s->text = malloc(len + 1);
    if (!s->text)
        return kn_fail_nomem(s->err, len + 1);
    kn_json_reader j;
    kn_json_begin_inside(&j, (kn_json_text){ index, len }, "the index", s->err);
    bool ok = read_document(s, &j);
    kn_json_close(&j);
    return ok && (s->count > 0 || kn_fail(s->err, KN_E_FORMAT, "the index names no tensors"));
}

static int by_shard(const void *a, const void *b) {
    return strcmp(((const row *)a)->shard, ((const row *)b)->shard);
}

static int by_tensor(const void *a, const void *b) {
    return strcmp(((const row *)a)->tensor, ((const row *)b)->tensor);
}

static bool list_shards(split *s) {
    qsort(s->rows, s->count, sizeof *s->rows, by_shard);
    s->shard = malloc(KN_MIN(s->count, (size_t)SHARDS_MAX) * sizeof *s->shard);
    if (!s->shard)
        return kn_fail_nomem(s->err, s->count * sizeof *s->shard);
    for (size_t i = 0; i < s->count; i++) {
        if (i == 0 || by_shard(&s->rows[i - 1], &s->rows[i]) != 0) {
            if (s->shard_count == SHARDS_MAX)
                return kn_fail(s->err, KN_E_RANGE, "the index names more than %d shards", SHARDS_MAX);
            s->shard[s->shard_count++] = s->rows[i].shard;
        }
        s->rows[i].place = s->shard_count - 1;
    }
    qsort(s->rows, s->count, sizeof *s->rows, by_tensor);
    for (size_t i = 1; i < s->count; i++) {
        const char *tensor = s->rows[i].tensor;
        if (strcmp(s->rows[i - 1].tensor, tensor) == 0)
            return kn_fail(s->err, KN_E_FORMAT, "tensor '%s' is in the index twice",
                           kn_quote_name(tensor, strlen(tensor)).text);
    }
    return true;
}

static bool is_word(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* The words of a name that are different in another one: of "model-00002-of-00009" beside "model-00001-of-00009",
 * "00002". */
static kn_quoted different_part(const char *name, const char *other) {
    size_t len = strlen(name), other_len = strlen(other), most = KN_MIN(len, other_len), front = 0, back = 0;
    while (front < most && name[front] == other[front])
        front++;
    while (back < most - front && name[len - 1 - back] == other[other_len - 1 - back])
        back++;
    while (front > 0 && is_word(name[front - 1]))
        front--;
    while (back > 0 && is_word(name[len - back]))
        back--;
    return kn_quote(name + front, len - front - back);
}

/* Names all of them, as far as a message has room: usually a download has not come to its end. */
static bool fail_missing(const split *s, size_t missing) {
    const char *first = NULL;
    size_t named = 0;
    KN_AUTO_BUF list;
    kn_buf_init(&list, MISSING_ROOM + sizeof(kn_quoted_path));
    for (size_t i = 0; i < s->shard_count && list.len < MISSING_ROOM; i++) {
        if (!s->is_missing[i])
            continue;
        const char *name = s->shard[i];
        if (!(first ? kn_buf_printf(&list, ", %s", different_part(name, first).text)
                    : kn_buf_add_text(&list, kn_quote_path(name).text)))
            return kn_fail_nomem(s->err, list.limit);
        first = first ? first : name;
        named++;
    }
    if (named < missing && !kn_buf_printf(&list, " and %zu more", missing - named))
        return kn_fail_nomem(s->err, list.limit);
    return kn_fail(s->err, KN_E_NOT_FOUND, "%zu of %zu shards %s missing: %s; has the download come to its end?",
                   missing, s->shard_count, missing == 1 ? "is" : "are", list.data);
}

/* What is missing is told before what is wrong with those that are there. */
static bool open_shards(split *s, kn_shard_open_fn *open, void *ctx) {
    kn_error first = { 0 };
    size_t missing = 0;
    s->joined->part = calloc(s->shard_count, sizeof *s->joined->part);
    if (!s->joined->part)
        return kn_fail_nomem(s->err, s->shard_count * sizeof *s->joined->part);
    s->joined->part_count = s->shard_count;
    for (size_t i = 0; i < s->shard_count; i++) {
        kn_weights **part = &s->joined->part[i];
        kn_error err = { 0 };
        if (!open(ctx, s->shard[i], part, &err)) {
            kn_fail_within(&err, "shard '%s'", kn_quote_path(s->shard[i]).text);
            kn_fail(&first, err.code, "%s", err.text);
        } else if (!*part) {
            s->is_missing[i] = true;
            missing++;
        }
    }
    if (missing > 0)
        return fail_missing(s, missing);
    return first.code == KN_OK || kn_fail(s->err, first.code, "%s", first.text);
}

/* Every tensor of a shard is in the index, at this shard, … */
static bool check_shard(split *s, size_t place) {
    const kn_weights *shard = s->joined->part[place];
    for (size_t i = 0; i < shard->count; i++) {
        const char *name = shard->entry[i].name;
        row wanted = { .tensor = name };
        row *r = bsearch(&wanted, s->rows, s->count, sizeof wanted, by_tensor);
        if (r && r->place == place)
            r->found = true;
        else if (r)
            return kn_fail(s->err, KN_E_FORMAT, "tensor '%s' is in the shard '%s', in the index at '%s'",
                           kn_quote_name(name, strlen(name)).text, kn_quote_path(s->shard[place]).text,
                           kn_quote_name(r->shard, strlen(r->shard)).text);
        else
            return kn_fail(s->err, KN_E_FORMAT, "tensor '%s' of the shard '%s' is not in the index",
                           kn_quote_name(name, strlen(name)).text, kn_quote_path(s->shard[place]).text);
    }
    return true;
}

/* … and every tensor of the index has been found there. So none is in two shards. */
static bool check_tensors(split *s) {
    for (size_t i = 0; i < s->shard_count; i++) {
        if (!check_shard(s, i))
            return false;
    }
    for (size_t i = 0; i < s->count; i++) {
        const row *r = &s->rows[i];
        if (!r->found)
            return kn_fail(s->err, KN_E_FORMAT, "tensor '%s' is not in the shard '%s', where the index has it",
                           kn_quote_name(r->tensor, strlen(r->tensor)).text, kn_quote_path(r->shard).text);
    }
    return true;
}

static bool is_same(const char *a, const char *b) {
    return a && b ? strcmp(a, b) == 0 : a == b;
}

/* What the first shard says and no other one contradicts. How layers are quantised must not be lost in that way. */
static bool join_metadata(split *s) {
    kn_weights *all = s->joined;
    const kn_weights *first = all->part[0];
    all->metadata = malloc((first->metadata_count + 1) * sizeof *all->metadata);
    if (!all->metadata)
        return kn_fail_nomem(s->err, (first->metadata_count + 1) * sizeof *all->metadata);
    for (size_t k = 0; k < first->metadata_count; k++) {
        kn_pair pair = first->metadata[k];
        bool agreed = true;
        for (size_t i = 1; i < s->shard_count && agreed; i++) {
            const char *value = kn_weights_metadata(all->part[i], pair.key);
            agreed = !value || is_same(value, pair.value);
        }
        if (agreed)
            all->metadata[all->metadata_count++] = pair;
    }
    const char *quantised = kn_weights_metadata(first, kn_quant_list_key);
    for (size_t i = 1; i < s->shard_count; i++) {
        if (!is_same(kn_weights_metadata(all->part[i], kn_quant_list_key), quantised))
            return kn_fail(s->err, KN_E_UNSUPPORTED, "shard '%s' has other %s than shard '%s'",
                           kn_quote_path(s->shard[i]).text, kn_quant_list_key, kn_quote_path(s->shard[0]).text);
    }
    return true;
}

/* One list of all tensors; that of each shard is needed no more. */
static bool join_entries(split *s) {
    kn_weights *all = s->joined;
    all->entry = malloc(s->count * sizeof *all->entry);
    if (!all->entry)
        return kn_fail_nomem(s->err, s->count * sizeof *all->entry);
    for (size_t i = 0; i < s->shard_count; i++) {
        kn_weights *part = all->part[i];
        if (part->count > 0)
            memcpy(all->entry + all->count, part->entry, part->count * sizeof *all->entry);
        all->count += part->count;
        free(part->entry);
        part->entry = NULL;
        part->count = 0;
    }
    return kn_weights_sort(all, s->err);
}

bool kn_shards_read(const char *index, size_t len, kn_shard_open_fn *open, void *ctx, kn_weights **ret, kn_error *err) {
    split s = { .joined = calloc(1, sizeof *s.joined), .err = err };
    if (!s.joined)
        return kn_fail_nomem(err, sizeof *s.joined);
    bool ok = read_index(&s, index, len) && list_shards(&s) && open_shards(&s, open, ctx) && check_tensors(&s) &&
              join_metadata(&s) && join_entries(&s);
    free(s.text);
    free(s.rows);
    free(s.shard);
    if (ok)
        *ret = s.joined;
    else
        kn_weights_close(s.joined);
    return ok;
}
