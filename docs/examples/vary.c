/* Variations of a picture, with libkuno: several seeds start from it, and as much of it changes as the strength says.
 *
 *     ./vary input.png "a green apple" 0.6 3 apple
 *
 * writes apple-1.png, apple-2.png and apple-3.png. The prompt and the picture are encoded once for all of them. */
#include <stdio.h>
#include <stdlib.h>

#include <kuno.h>

enum { MOST = 100 };

static kuno_code draw_all(kuno_model *model, const kuno_request *request, size_t count, const char *name,
                          kuno_error *error) {
    kuno_image drawn[MOST] = { { 0 } };
    kuno_code code = kuno_generate_batch(model, request, count, drawn, error);
    for (size_t i = 0; i < count; i++) {
        char path[1000];
        snprintf(path, sizeof path, "%s-%zu.png", name, i + 1);
        if (code == KUNO_OK)
            code = kuno_image_write_png(&drawn[i], path, error);
        if (code == KUNO_OK)
            printf("%s: seed %llu\n", path, (unsigned long long)drawn[i].seed);
        kuno_image_free(&drawn[i]);
    }
    return code;
}

static void tell(const kuno_model *model) {
    kuno_report report;
    kuno_model_report(model, &report);
    for (int i = 0; i < KUNO_STAGES; i++)
        if (report.stages[i].name)
            printf("%-8s done %d times, reused %d times\n", report.stages[i].name, report.stages[i].runs,
                   report.stages[i].reused);
}

int main(int argc, char **argv) {
    unsigned long count = argc == 6 ? strtoul(argv[4], NULL, 10) : 0;
    if (count < 1 || count > MOST) {
        fprintf(stderr, "usage: vary PICTURE PROMPT STRENGTH COUNT NAME\n");
        return KUNO_INVALID;
    }
    kuno_error error;
    kuno_model *model = NULL;
    kuno_image picture = { 0 };
    kuno_code code = kuno_image_read(argv[1], &picture, &error);
    if (code == KUNO_OK)
        code = kuno_model_open(NULL, &model, &error);
    if (code == KUNO_OK) {
        kuno_request request;
        kuno_request_init(&request);
        request.prompt = argv[2];
        request.init_image = &picture;
        request.strength = strtod(argv[3], NULL);
        code = draw_all(model, &request, count, argv[5], &error);
    }
    if (code == KUNO_OK)
        tell(model);
    else
        fprintf(stderr, "vary: %s\n", error.text);
    kuno_image_free(&picture);
    kuno_model_close(model);
    return code;
}
