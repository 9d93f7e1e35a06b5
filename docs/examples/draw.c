/* The smallest program with libkuno: one prompt, one PNG.
 *
 *     cc draw.c $(pkg-config --cflags --libs kuno) -o draw
 *     ./draw "a red apple" apple.png
 */
#include <stdio.h>

#include <kuno.h>

static int show(void *context, const kuno_progress *p) {
    (void)context;
    if (p->steps > 0)
        printf("step %d of %d, %.2f s\n", p->step, p->steps, p->seconds);
    return 0; /* anything else would stop */
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: draw PROMPT FILE.png\n");
        return KUNO_INVALID;
    }
    kuno_error error;
    kuno_model *model = NULL;
    kuno_image image = { 0 };
    kuno_code code = kuno_model_open(NULL, &model, &error);
    if (code == KUNO_OK) {
        kuno_request request;
        kuno_request_init(&request);
        request.prompt = argv[1];
        request.progress = show;
        code = kuno_generate(model, &request, &image, &error);
    }
    if (code == KUNO_OK)
        code = kuno_image_write_png(&image, argv[2], &error);
    if (code == KUNO_OK)
        printf("%s: %dx%d, seed %llu\n", argv[2], image.width, image.height, (unsigned long long)image.seed);
    else
        fprintf(stderr, "draw: %s\n", error.text);
    kuno_image_free(&image);
    kuno_model_close(model);
    return code;
}
