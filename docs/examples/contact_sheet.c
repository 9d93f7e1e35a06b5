/* Many prompts on one sheet, with libkuno: the model is opened once and kept between pictures.
 *
 *     ./contact_sheet sheet.png "a red apple" "a fox" "a rocket" "a cat" "a castle"
 *
 * draws the prompts in rows of four, with seeds 1, 2, 3, … */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kuno.h>

/* Puts a picture into its place on the sheet. All pictures have the size of the first. */
static int paste(kuno_image *sheet, const kuno_image *picture, int columns, int rows, int index) {
    if (!sheet->pixels) {
        sheet->width = picture->width * columns;
        sheet->height = picture->height * rows;
        sheet->channels = picture->channels;
        sheet->pixels = calloc((size_t)sheet->width * sheet->channels, sheet->height);
        if (!sheet->pixels)
            return 0;
    }
    size_t row = (size_t)picture->width * picture->channels, sheet_row = (size_t)sheet->width * sheet->channels;
    unsigned char *to =
        sheet->pixels + (size_t)(index / columns) * picture->height * sheet_row + (size_t)(index % columns) * row;
    for (int y = 0; y < picture->height; y++)
        memcpy(to + y * sheet_row, picture->pixels + y * row, row);
    return 1;
}

static kuno_code draw_all(kuno_model *model, char **prompts, int count, kuno_image *sheet, kuno_error *error) {
    int columns = count < 4 ? count : 4, rows = (count + columns - 1) / columns;
    for (int i = 0; i < count; i++) {
        kuno_image picture = { 0 };
        kuno_request request;
        kuno_request_init(&request);
        request.prompt = prompts[i];
        request.random_seed = 0;
        request.seed = (uint64_t)i + 1;
        kuno_code code = kuno_generate(model, &request, &picture, error);
        if (code != KUNO_OK)
            return code;
        int fits = paste(sheet, &picture, columns, rows, i);
        kuno_image_free(&picture);
        if (!fits) {
            snprintf(error->text, sizeof error->text, "out of memory for the sheet");
            return KUNO_FAILED;
        }
    }
    return KUNO_OK;
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: contact_sheet FILE.png PROMPT…\n");
        return KUNO_INVALID;
    }
    const kuno_model_options options = { .keep_loaded = 1 };
    kuno_error error;
    kuno_model *model = NULL;
    kuno_image sheet = { 0 };
    kuno_code code = kuno_model_open(&options, &model, &error);
    if (code == KUNO_OK)
        code = draw_all(model, argv + 2, argc - 2, &sheet, &error);
    if (code == KUNO_OK)
        code = kuno_image_write_png(&sheet, argv[1], &error);
    if (code != KUNO_OK)
        fprintf(stderr, "contact_sheet: %s\n", error.text);
    kuno_image_free(&sheet);
    kuno_model_close(model);
    return code;
}
