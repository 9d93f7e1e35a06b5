#include "golden_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "pipelines/inspect.h"

/* What a pipeline dumps is compared with the recorded tensors as it comes. */
struct comparison {
    const golden *want;
    json_t *request;
    int first_step, compared;
    float sigmas[KN_MAX_STEPS + 1];
    float *latent; /* of the step before */
};

static void compare_ids(const golden *want, const char *name, const float *values, size_t n) {
    size_t count = 0;
    const int32_t *ids = golden_ints(want, name, &count);
    assert_int_equal(n, count);
    for (size_t i = 0; i < n; i++)
        assert_int_equal((int32_t)values[i], ids[i]);
}

static void compare_sigmas(struct comparison *c, const float *values, size_t n) {
    json_t *sigmas = json_object_get(c->request, "sigmas");
    sigmas = sigmas ? sigmas : json_object_get(c->request, "timesteps");
    assert_int_equal(n + (size_t)c->first_step, json_array_size(sigmas));
    for (size_t i = 0; i < n; i++)
        assert_float_equal(values[i], json_number_value(json_array_get(sigmas, i + (size_t)c->first_step)), 1e-7);
    memcpy(c->sigmas, values, n * sizeof *values);
}

/* The recorded pixels are not clamped. */
static void compare_image(const golden *want, const float *values, size_t n) {
    size_t count = 0;
    const float *recorded = golden_floats(want, "image", &count);
    float *clamped = malloc(sizeof(float) * count);
    assert_int_equal(n, count);
    for (size_t i = 0; i < n; i++)
        clamped[i] = recorded[i] < -1 ? -1 : recorded[i] > 1 ? 1 : recorded[i];
    compare_values("image", values, clamped, n, 1e-4);
    free(clamped);
}

static void keep_latent(struct comparison *c, const float *values, size_t n) {
    free(c->latent);
    c->latent = malloc(sizeof(float) * n);
    memcpy(c->latent, values, sizeof(float) * n);
}

/* A step of Euler's method tells the velocity that it took. */
static void compare_step(struct comparison *c, int step, const float *values, size_t n) {
    char full[64];
    snprintf(full, sizeof full, "step%d.velocity", step + c->first_step);
    float *velocity = c->latent;
    for (size_t i = 0; i < n; i++)
        velocity[i] = (values[i] - velocity[i]) / (c->sigmas[step + 1] - c->sigmas[step]);
    if (golden_has(c->want, full))
        golden_compare(c->want, full, velocity, n);
    keep_latent(c, values, n);
    snprintf(full, sizeof full, "step%d.latent", step + c->first_step);
    golden_compare(c->want, full, values, n);
}

static void compare_dump(void *ctx, const char *name, int rank, const int64_t *dim, const float *values) {
    struct comparison *c = ctx;
    static const char *const names[][2] = {
        { "text_embeddings", "conditioning" },
        { "negative_text_embeddings", "negative_conditioning" },
        { "noise", "noise" },
        { "encoded", "encoded" },
        { "start_latent", "start_latent" },
    };
    size_t n = 1;
    int step = 0;
    for (int i = 0; i < rank; i++)
        n *= (size_t)dim[i];
    c->compared++;
    if (sscanf(name, "latents_%d", &step) == 1) {
        compare_step(c, step, values, n);
    } else if (strcmp(name, "tokens") == 0 || strcmp(name, "negative_tokens") == 0) {
        compare_ids(c->want, *name == 't' ? "ids" : "negative_ids", values, n);
    } else if (strcmp(name, "sigmas") == 0) {
        compare_sigmas(c, values, n);
    } else if (strcmp(name, "image") == 0) {
        compare_image(c->want, values, n);
    } else if (strcmp(name, "latents_final") == 0) { /* the last step once more */
        c->compared--;
    } else {
        size_t i = 0;
        while (i < KN_COUNT(names) && strcmp(name, names[i][0]) != 0)
            i++;
        assert_true(i < KN_COUNT(names));
        golden_compare(c->want, names[i][1], values, n);
        if (strcmp(name, "noise") == 0 || strcmp(name, "start_latent") == 0)
            keep_latent(c, values, n);
    }
}

/* cfg is recorded in the form that adds to the positive side. */
static kn_wish wish_of_request(json_t *request, const kn_architecture *a) {
    return (kn_wish){
        .prompt = golden_text(request, "prompt"),
        .negative_prompt = golden_text(request, "negative_prompt"),
        .width = { true, golden_number(request, "width") },
        .height = { true, golden_number(request, "height") },
        .steps = { true, golden_number(request, "steps") },
        .cfg = { true, golden_number(request, "cfg") + (a->added_guidance ? 0 : 1) },
        .seed = (uint64_t)json_integer_value(json_object_get(request, "seed")),
        .seed_given = true,
    };
}

void draw_recorded(const char *folder, const kn_model_wish *model_wish) {
    bool exact = strcmp(model_wish->precision, "exact") == 0;
    char path[256];
    print_message("  %s, %s, %s\n", folder, model_wish->profile, model_wish->precision);
    snprintf(path, sizeof path, "%s/case.json", folder);
    json_t *c = golden_json(path), *request = json_object_get(c, "request");
    snprintf(path, sizeof path, "%s/io.safetensors", folder);
    golden want = golden_open(path);
    kn_model *m = open_model(model_wish);
    kn_wish wish = wish_of_request(request, m->choice.architecture);
    struct comparison comparison = { .want = &want, .request = request };
    kn_image start[2] = { { 0 } };
    read_start(folder, request, &wish, start);
    comparison.first_step = wish.init_image ? (int)golden_size(request, "start_index") : 0;
    const kn_hooks hooks = { .dump = exact ? compare_dump : NULL, .dump_ctx = &comparison };
    kn_image got = draw(m, &wish, &hooks, NULL);
    int steps = (int)golden_size(request, "steps") - comparison.first_step;
    int others = 5; /* ids, their states, noise, sigmas, image */
    others += (golden_number(request, "cfg") > 0 ? 2 : 0) + (wish.init_image ? 2 : 0);
    assert_int_equal(comparison.compared, exact ? steps + others : 0);
    snprintf(path, sizeof path, "%s/image.png", folder);
    kn_image png = read_png(path);
    compare_pictures(&got, &png, exact ? 1 : 255, 40);
    kn_image_free(&got);
    kn_image_free(&png);
    kn_image_free(&start[0]);
    kn_image_free(&start[1]);
    free(comparison.latent);
    kn_model_close(m);
    golden_close(&want);
    json_decref(c);
}

/* Files of full size. */

static uint64_t bytes_of(json_t *entry, const char *dtype, char shape[100]) {
    static const struct {
        const char *name;
        uint64_t bytes;
    } dtypes[] = { { "F32", 4 }, { "BF16", 2 }, { "F8_E4M3", 1 }, { "U8", 1 } };
    uint64_t bytes = 0;
    for (size_t i = 0; i < KN_COUNT(dtypes); i++)
        if (strcmp(dtype, dtypes[i].name) == 0)
            bytes = dtypes[i].bytes;
    assert_true(bytes > 0);
    size_t i;
    json_t *dim;
    *shape = 0;
    json_array_foreach(json_array_get(entry, 1), i, dim) {
        bytes *= (uint64_t)json_integer_value(dim);
        snprintf(shape + strlen(shape), 100 - strlen(shape), "%s%d", i ? "," : "", (int)json_integer_value(dim));
    }
    return bytes;
}

/* What is read of a tensor's data when a file is checked: scales, and the records of single layers. */
static void fill_data(const char *name, const char *dtype, uint8_t *data, uint64_t bytes) {
    static const char record[] = "{\"format\": \"float8_e4m3fn\"}";
    static const float one = 1;
    size_t len = strlen(name);
    if (strcmp(dtype, "U8") == 0) {
        assert_int_equal(bytes, sizeof record - 1);
        memcpy(data, record, sizeof record - 1);
    } else if (len > 6 && strcmp(name + len - 6, "_scale") == 0) {
        memcpy(data, &one, sizeof one);
    }
}

/* Header and data of a manifest; the data takes no memory where nobody touches it. */
static kn_source full_size(const char *manifest) {
    json_t *tensors = golden_json(manifest), *entry;
    const char *name;
    char shape[100];
    KN_AUTO_BUF header;
    kn_buf_init(&header, 1 << 20);
    json_t *metadata = json_object_get(tensors, "__metadata__");
    char *text = metadata ? json_dumps(metadata, JSON_COMPACT) : NULL;
    assert_true(kn_buf_printf(&header, "{\"__metadata__\":%s", text ? text : "{}"));
    free(text);
    json_object_del(tensors, "__metadata__");
    uint64_t at = 0;
    json_object_foreach(tensors, name, entry) {
        const char *dtype = json_string_value(json_array_get(entry, 0));
        uint64_t bytes = bytes_of(entry, dtype, shape);
        assert_true(kn_buf_printf(&header, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%llu,%llu]}",
                                  name, dtype, shape, (unsigned long long)at, (unsigned long long)(at + bytes)));
        at += bytes;
    }
    assert_true(kn_buf_add_text(&header, "}"));
    size_t len = 8 + header.len + (size_t)at;
    uint8_t *file = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(file != MAP_FAILED);
    for (int i = 0; i < 8; i++)
        file[i] = (uint8_t)((uint64_t)header.len >> 8 * i);
    memcpy(file + 8, header.data, header.len);
    at = 8 + header.len;
    json_object_foreach(tensors, name, entry) {
        const char *dtype = json_string_value(json_array_get(entry, 0));
        uint64_t bytes = bytes_of(entry, dtype, shape);
        fill_data(name, dtype, file + at, bytes);
        at += bytes;
    }
    json_decref(tensors);
    return (kn_source){ .data = file, .len = len };
}

void assert_full_size_fits(const char *manifest, const kn_slot *slot, size_t tensors) {
    kn_source file = full_size(manifest);
    kn_inspection found;
    kn_error err = { 0 };
    if (!kn_inspect_file(&file, slot, &found, &err) || !kn_inspect_fit(slot, &file, &err))
        fail_msg("%s: %s", manifest, err.text);
    assert_non_null(found.kind);
    assert_int_equal(found.tensors, tensors);
    assert_int_equal(found.missing_scales, 0);
    assert_int_equal(munmap((void *)(uintptr_t)file.data, file.len), 0);
}
