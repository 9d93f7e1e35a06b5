#include "pipelines/demo.h"

/* demo_data.S */
extern const uint8_t kn_demo_diffusion_model[], kn_demo_diffusion_model_end[];
extern const uint8_t kn_demo_text_encoder[], kn_demo_text_encoder_end[];
extern const uint8_t kn_demo_vae[], kn_demo_vae_end[];
extern const uint8_t kn_demo_tokenizer[], kn_demo_tokenizer_end[];

/* A profile holds changeable texts; nobody changes these. */
static char name[] = "demo", architecture[] = "qwen-image-2.1", variant[] = "turbo";

const kn_profile kn_demo_profile = {
    .name = name,
    .architecture = architecture,
    .variant = variant,
    .line = 1,
    .defaults.of = { [KN_SETTING_WIDTH] = { .given = true, .integer = 128 },
                     [KN_SETTING_HEIGHT] = { .given = true, .integer = 128 } },
};

static kn_source part(const uint8_t *from, const uint8_t *to) {
    return (kn_source){ .data = from, .len = (size_t)(to - from) };
}

kn_model_files kn_demo_files(void) {
    return (kn_model_files){
        .diffusion_model = part(kn_demo_diffusion_model, kn_demo_diffusion_model_end),
        .text_encoder = part(kn_demo_text_encoder, kn_demo_text_encoder_end),
        .vae = part(kn_demo_vae, kn_demo_vae_end),
        .tokenizer = part(kn_demo_tokenizer, kn_demo_tokenizer_end),
    };
}
