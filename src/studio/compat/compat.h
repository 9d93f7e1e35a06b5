/* Other people's APIs on the studio's port, for the clients that they have already: OpenAI's /v1/images, A1111's
 * /sdapi/v1 and stable-diffusion.cpp's /sdcpp/v1. Each is a translation and nothing else: what a client orders becomes
 * a job of the studio, and what became of the job becomes its answer.
 *
 *     client ──► compat.c   whose API, and who may
 *            ──► openai.c, a1111.c, sdcpp.c   its words to an order (order.c) …
 *            ──► call.c     its pictures to inputs, the order to a job, wait, results
 *            ──► openai.c, …   … and back to its words
 *
 * Who waits for a picture and leaves has its job cancelled. Unknown members are stepped over, since clients send many
 * that mean nothing here; what is known is read as strictly as the studio's own requests. Refusals are written as each
 * API writes them (kn_exchange_set_dialect). Pictures that clients send are never decoded here.
 *
 * Internal to the studio. */
#ifndef KN_STUDIO_COMPAT_H
#define KN_STUDIO_COMPAT_H

#include "base/json_form.h"
#include "studio/api_visit.h"

enum {
    KN_COMPAT_BODY_MAX = 64 << 20,
    KN_COMPAT_LARGE = 4 << 20,        /* bodies from here on are large: KN_API_LARGE_BODIES at a time */
    KN_COMPAT_CALLS = 64,             /* clients that wait for pictures */
    KN_COMPAT_ANSWER_MAX = 256 << 20, /* bytes of an answer with its pictures */
    KN_COMPAT_TYPE_BYTES = 300,       /* of a Content-Type with its boundary */
};

/* ---- who may: compat.c ---- */

/* A request as its routes see it: without the key that its path may begin with, /key/TOKEN. */
typedef struct kn_compat_door {
    kn_head head;
    kn_span key; /* .data NULL: none */
} kn_compat_door;

/* Whether it is for one of these APIs; if so, refusals are written in its words from now on. */
bool kn_compat_is_meant(kn_exchange *x, const kn_head *head, kn_compat_door *ret);

/* The token as it is, as the password of Basic, or in the path, for clients that can send it in no other way. Else it
 * is answered. */
bool kn_compat_admits(kn_api *a, kn_exchange *x, const kn_compat_door *door);
void kn_compat_let_go(kn_api *a, kn_exchange *x); /* its body is not needed any more; again: nothing */

/* A part of the path, without the key. */
bool kn_compat_part(kn_visit *v, unsigned number, char *ret, size_t room);

/* ---- what is ordered: order.c, enlarge.c ---- */

#define KN_ORDER_STRENGTH 0.75 /* where nothing is said: how much of a picture may change */

typedef struct kn_order_picture {
    kn_input_role role;
    kn_buf bytes; /* until it is known */
    kn_sha256 id;
    bool known;
    kn_input_facts facts;
} kn_order_picture;

/* A picture that is only enlarged. */
typedef struct kn_order_enlarging {
    bool wanted;
    char upscaler[KN_NAME_BYTES]; /* empty: that of the settings */
    uint64_t repeats;             /* through the network, which then says the size; 0: not given */
    double factor;                /* 0: not given */
    uint32_t width, height;       /* of the result, in the end */
    bool crops;                   /* what has another shape */
    uint32_t scale;               /* of the upscaler, if repeats are given */
    uint64_t tile_size;           /* 0: as memory allows */
} kn_order_enlarging;

typedef struct kn_order {
    char *prompt, *negative_prompt;            /* NULL: none */
    char profile[KN_NAME_BYTES];               /* empty: the active one */
    uint32_t width, height;                    /* 0: as the preset says */
    int preset;                                /* kn_preset_id; negative: that of the settings */
    bool has_seed, stream, transparent, plain; /* plain: without settings in the file */
    uint64_t seed, count, partial_images;
    char sampler[4 * 40 + 1]; /* empty: the model's */
    uint64_t quality;         /* of JPEG and WebP, 0 … 100 */
    kn_picture_format format;
    kn_plan_wish wish;
    kn_optional feather; /* pixels, of the edge of a mask; without one it says nothing */
    kn_order_enlarging enlarging;
    size_t picture_count;
    kn_order_picture pictures[KN_REQUEST_INPUTS];
} kn_order;

void kn_order_init(kn_order *o);
void kn_order_free(kn_order *o);
char *kn_order_request(const kn_order *o); /* the body of /api/v1/jobs, or of /api/v1/upscale; NULL: out of memory */

/* In the disk's thread, when the picture is known: what the result's size is. */
bool kn_order_settle(kn_visit *v, kn_store *s, kn_order *o, kn_error *err);

/* Begins to read the members of an order from JSON: those that are not known are stepped over. Where one is not as it
 * should be, v->pointer says so. */
void kn_order_open(kn_form *f, kn_json_reader *j, kn_visit *v, kn_json_text body, const char *const *keys, size_t count,
                   kn_error *err);

/* Members that are alike everywhere. None of them reads null: that is the same as a member that is not there. */
void kn_order_take_text(kn_form *f, char **ret);
void kn_order_take_profile(kn_form *f, kn_order *o);
void kn_order_take_side(kn_form *f, uint32_t *ret);
void kn_order_take_seed(kn_form *f, kn_order *o); /* a number or a text; negative: a random one */
void kn_order_take_number(kn_form *f, double least, kn_optional *ret);
void kn_order_take_sampler(kn_form *f, kn_order *o); /* one that is not known here is the model's own */
void kn_order_take_format(kn_form *f, kn_order *o);  /* png, jpeg or webp in any case */
void kn_order_take_picture(kn_form *f, kn_order *o, kn_input_role role); /* base64, or a data URL */
kn_order_picture *kn_order_add_picture(kn_order *o, kn_input_role role, kn_error *err);

/* After the last member: an error if this one, without which there is no order, is not there. */
void kn_order_need(kn_form *f, int key, bool there);

/* ---- who reads ---- */

/* What a body says, in v->body: an order of a prompt and pictures. v->compat->type is that of a form; v->flag: a
 * picture to start from is needed. Where it is not as it should be, v->pointer says so. */
typedef bool kn_compat_reader(kn_visit *v, kn_order *o, kn_error *err);
kn_compat_reader kn_openai_read_json, kn_openai_read_form, kn_a1111_read, kn_sdcpp_read, kn_a1111_read_extra,
    kn_sdcpp_read_upscale;

/* ---- what becomes of it: call.c ---- */

typedef struct kn_compat_call kn_compat_call;

/* One way to order pictures. */
typedef struct kn_compat_way {
    /* Both in the disk's thread. `answer` writes what a client gets when its job is completed. */
    kn_compat_reader *read;
    bool (*answer)(kn_visit *v, kn_store *s, const json_t *job, kn_buf *into, kn_error *err);
    /* In the loop; only of those who do not wait: the job v->json is there. */
    void (*accepted)(kn_visit *v);
    /* In the loop, of those who order a stream: a preview of the job and what stands behind a failure. */
    void (*preview)(kn_visit *v, const void *file, size_t len, unsigned number);
    void (*failed)(kn_visit *v);
    bool measures; /* it matters by how much upscalers enlarge */
    bool is_form;  /* the body, which else is JSON */
} kn_compat_way;

struct kn_compat_call {
    kn_order order;
    const kn_compat_way *way;
    char type[KN_COMPAT_TYPE_BYTES]; /* of the body */
    size_t looking;                  /* at this picture */
    bool abandoned;                  /* the client left before there was a job */
    kn_wait stands_for;              /* what its pictures would wait for */
    bool created, waits, finished;
    bool left, cancelled;   /* the service stops and nothing is done of its job any more, which has been told so */
    bool converting, ended; /* a preview is on its way into the wanted format; the job has ended meanwhile */
    kn_buf preview;
    kn_buf out; /* an answer, or what is to be sent of a stream */
    size_t sent;
    uint64_t steps;
    unsigned previews;
    kn_visit *visit;
    kn_compat_call *next, **at;
};

void kn_compat_order(kn_visit *v, const kn_compat_way *way);
void kn_compat_forget(kn_visit *v); /* with its visit; without a call: nothing */

/* The pictures of a job as texts of JSON in base64, quotes and all. KN_E_NOT_FOUND: it is not there any more. */
bool kn_compat_add_picture(kn_store *s, const char *job, unsigned number, kn_buf *into, kn_error *err);
bool kn_compat_add_base64(kn_buf *into, const void *data, size_t len, kn_error *err);
bool kn_compat_add_json(kn_buf *into, json_t *json, kn_error *err); /* takes it over */

/* Adds to a stream, and sends what can be sent. */
void kn_compat_send(kn_visit *v, const char *text, size_t len);
void kn_compat_pump(kn_visit *v);

/* The number of a job's results, and one of them. */
size_t kn_compat_results(const json_t *job);
const json_t *kn_compat_result(const json_t *job, size_t i);

/* ---- routes ---- */

kn_route_fn kn_compat_ping;
kn_route_fn kn_openai_generate, kn_openai_edit, kn_openai_models, kn_openai_model;
kn_route_fn kn_a1111_draw, kn_a1111_options, kn_a1111_set_options, kn_a1111_progress, kn_a1111_interrupt,
    kn_a1111_samplers, kn_a1111_schedulers, kn_a1111_models, kn_a1111_upscalers, kn_a1111_upscale_modes,
    kn_a1111_nothing, kn_a1111_embeddings, kn_a1111_extra, kn_a1111_png_info;
kn_route_fn kn_sdcpp_capabilities, kn_sdcpp_draw, kn_sdcpp_vid_gen, kn_sdcpp_job, kn_sdcpp_cancel, kn_sdcpp_upscale;

/* The names of our samplers and of our ways to space the noise levels, as lists. */
json_t *kn_compat_samplers(void);
json_t *kn_compat_schedulers(void);

/* Refusals in each API's words, and what they have in common: `error` is taken over, `more` are lines of the head. */
kn_problem_writer kn_openai_refuse, kn_a1111_refuse, kn_sdcpp_refuse;
void kn_compat_refuse(kn_exchange *x, const kn_problem *p, unsigned status, json_t *error, const char *more);

#endif
