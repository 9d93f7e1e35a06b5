#include "studio/api.h"

#include <stdlib.h>
#include <string.h>

#include "mcp/endpoint.h"
#include "studio/api_visit.h"
#include "studio/compat/compat.h"

enum { JSON_MAX = KN_REQUEST_BYTES, SMALL_MAX = 64 << 10, SETTINGS_MAX = 256 << 10 };

/* openapi.S */
extern const char kn_studio_openapi[], kn_studio_openapi_end[];

static void health(kn_exchange *x, kn_span body) {
    kn_visit *v = kn_visit_begin(x, body, "");
    if (!v)
        return;
    v->json = json_pack("{s:s, s:s, s:s}", "status", kn_queue_is_stopping(v->studio->queue) ? "stopping" : "ok",
                        "version", KN_VERSION, "api", "v1");
    kn_visit_answer(v);
}

static kn_span between(const char *from, const char *to) {
    return (kn_span){ from, (size_t)(to - from) };
}

static void openapi(kn_exchange *x, kn_span body) {
    kn_visit *v = kn_visit_begin(x, body, "");
    const kn_span text = between(kn_studio_openapi, kn_studio_openapi_end);
    if (v)
        kn_visit_send_bytes(v, "application/yaml", text.data, text.len);
}

#define JOB      "/api/v1/jobs/*"
#define INPUT    "/api/v1/inputs/*"
#define ITEM     "/api/v1/gallery/*"
#define PROFILE  "/api/v1/models/*"
#define DOWNLOAD "/api/v1/downloads/*"
#define A1111    "/sdapi/v1"
#define SDCPP    "/sdcpp/v1"

/* Types of bodies. */
#define PICTURES " image/png image/jpeg image/webp"
#define PATCHES  " application/json application/merge-patch+json"

static const kn_route routes[] = {
    { "GET", "/api/v1/health", health, 0 },
    { "POST", "/api/v1/session", kn_api_create_session, SMALL_MAX },
    { "DELETE", "/api/v1/session", kn_api_delete_session, 0 },
    { "POST", "/api/v1/session/link", kn_api_create_link, 0 },
    { "GET", "/api/v1/openapi.yaml", openapi, 0 },
    { "GET", "/api/v1/status", kn_api_status, 0 },
    { "GET", "/api/v1/capabilities", kn_api_capabilities, 0 },
    { "GET", "/api/v1/events", kn_api_events, 0 },
    { "POST", "/api/v1/plan", kn_api_plan, JSON_MAX },
    { "POST", "/api/v1/jobs", kn_api_create_job, JSON_MAX },
    { "GET", "/api/v1/jobs", kn_api_list_jobs, 0 },
    { "GET", JOB, kn_api_get_job, 0 },
    { "DELETE", JOB, kn_api_delete_job, 0 },
    { "POST", JOB "/cancel", kn_api_cancel_job, 0 },
    { "POST", JOB "/retry", kn_api_retry_job, 0 },
    { "GET", JOB "/events", kn_api_job_events, 0 },
    { "GET", JOB "/preview", kn_api_job_preview, 0 },
    { "GET", JOB "/results/*", kn_api_job_result, 0 },
    { "POST", "/api/v1/upscale", kn_api_create_upscale, JSON_MAX },
    { "POST", "/api/v1/inputs" PICTURES, kn_api_create_input, KN_INPUT_BYTES_MAX },
    { "GET", "/api/v1/inputs", kn_api_list_inputs, 0 },
    { "GET", INPUT, kn_api_get_input, 0 },
    { "DELETE", INPUT, kn_api_delete_input, 0 },
    { "GET", INPUT "/content", kn_api_input_content, 0 },
    { "GET", "/api/v1/gallery", kn_api_list_gallery, 0 },
    { "GET", ITEM, kn_api_get_item, 0 },
    { "PATCH", ITEM, kn_api_change_item, SMALL_MAX },
    { "DELETE", ITEM, kn_api_delete_item, 0 },
    { "GET", ITEM "/content", kn_api_item_content, 0 },
    { "GET", ITEM "/thumbnail", kn_api_item_thumbnail, 0 },
    { "POST", ITEM "/export", kn_api_export_item, SMALL_MAX },
    { "POST", "/api/v1/recipes/inspect" PICTURES, kn_api_inspect_recipe, KN_INPUT_BYTES_MAX },
    { "GET", "/api/v1/models", kn_api_list_models, 0 },
    { "POST", "/api/v1/models/scan", kn_api_scan_models, SMALL_MAX },
    { "GET", PROFILE, kn_api_get_model, 0 },
    { "PUT", PROFILE, kn_api_put_model, SETTINGS_MAX },
    { "DELETE", PROFILE, kn_api_delete_model, 0 },
    { "POST", PROFILE "/activate", kn_api_activate_model, 0 },
    { "GET", "/api/v1/catalog", kn_api_catalog, 0 },
    { "POST", "/api/v1/downloads", kn_api_create_download, SMALL_MAX },
    { "GET", "/api/v1/downloads", kn_api_list_downloads, 0 },
    { "GET", DOWNLOAD, kn_api_get_download, 0 },
    { "DELETE", DOWNLOAD, kn_api_delete_download, 0 },
    { "POST", DOWNLOAD "/pause", kn_api_pause_download, 0 },
    { "POST", DOWNLOAD "/resume", kn_api_resume_download, 0 },
    { "POST", DOWNLOAD "/cancel", kn_api_cancel_download, 0 },
    { "GET", "/api/v1/settings", kn_api_get_settings, 0 },
    { "PATCH", "/api/v1/settings" PATCHES, kn_api_change_settings, SETTINGS_MAX },
    { "GET", "/api/v1/diagnostics", kn_api_diagnostics, 0 },
    { "GET", "/api/v1/diagnostics/report", kn_api_report, 0 },
    { "GET", "/api/v1/engine", kn_api_engine, 0 },
    { "POST", "/api/v1/engine/start", kn_api_engine_start, 0 },
    { "POST", "/api/v1/engine/restart", kn_api_engine_restart, 0 },
    { "POST", "/api/v1/engine/stop", kn_api_engine_stop, 0 },
    { "POST", "/api/v1/service/stop", kn_api_stop, 0 },
    /* Other APIs. */
    { "OPTIONS", "/v1/images/generations", kn_compat_ping, 0 },
    { "POST", "/v1/images/generations", kn_openai_generate, JSON_MAX },
    { "POST", "/v1/images/edits multipart/form-data", kn_openai_edit, KN_COMPAT_BODY_MAX },
    { "GET", "/v1/models", kn_openai_models, 0 },
    { "GET", "/v1/models/*", kn_openai_model, 0 },
    { "POST", A1111 "/txt2img", kn_a1111_draw, KN_COMPAT_BODY_MAX },
    { "POST", A1111 "/img2img", kn_a1111_draw, KN_COMPAT_BODY_MAX },
    { "POST", A1111 "/extra-single-image", kn_a1111_extra, KN_COMPAT_BODY_MAX },
    { "POST", A1111 "/png-info", kn_a1111_png_info, KN_COMPAT_BODY_MAX },
    { "GET", A1111 "/options", kn_a1111_options, 0 },
    { "POST", A1111 "/options", kn_a1111_set_options, SETTINGS_MAX },
    { "GET", A1111 "/progress", kn_a1111_progress, 0 },
    { "POST", A1111 "/interrupt", kn_a1111_interrupt, SMALL_MAX },
    { "POST", A1111 "/skip", kn_a1111_interrupt, SMALL_MAX },
    { "GET", A1111 "/samplers", kn_a1111_samplers, 0 },
    { "GET", A1111 "/schedulers", kn_a1111_schedulers, 0 },
    { "GET", A1111 "/sd-models", kn_a1111_models, 0 },
    { "GET", A1111 "/upscalers", kn_a1111_upscalers, 0 },
    { "GET", A1111 "/latent-upscale-modes", kn_a1111_upscale_modes, 0 },
    { "GET", A1111 "/sd-vae", kn_a1111_nothing, 0 },
    { "GET", A1111 "/sd-modules", kn_a1111_nothing, 0 },
    { "GET", A1111 "/loras", kn_a1111_nothing, 0 },
    { "GET", A1111 "/embeddings", kn_a1111_embeddings, 0 },
    { "GET", SDCPP "/capabilities", kn_sdcpp_capabilities, 0 },
    { "POST", SDCPP "/img_gen", kn_sdcpp_draw, KN_COMPAT_BODY_MAX },
    { "POST", SDCPP "/vid_gen", kn_sdcpp_vid_gen, KN_COMPAT_BODY_MAX },
    { "POST", SDCPP "/upscale", kn_sdcpp_upscale, KN_COMPAT_BODY_MAX },
    { "GET", SDCPP "/jobs/*", kn_sdcpp_job, 0 },
    { "POST", SDCPP "/jobs/*/cancel", kn_sdcpp_cancel, SMALL_MAX },
};

/* Health says nothing that a page could not know, a session is begun with the token itself, and clients that look for a
 * way to log in are to find none. */
static bool is_open(const kn_head *head) {
    kn_span path = kn_head_path(head);
    static const char known[] = "/.well-known/";
    return kn_span_is(path, "/api/v1/health") ||
           (path.len >= sizeof known - 1 && !memcmp(path.data, known, sizeof known - 1)) ||
           (kn_span_is(path, "/api/v1/session") && kn_span_is(head->method, "POST"));
}

/* Other APIs are told by the path; the server then writes in their words. */
static void on_refused(kn_exchange *x, unsigned status, kn_span target) {
    (void)status;
    const kn_head head = { .target = target };
    kn_compat_door door;
    kn_compat_is_meant(x, &head, &door);
}

/* The storage cannot be written, and has not been since the start: whoever runs the service finds in its log why. */
static void tell_away(kn_exchange *x, kn_code away) {
    bool is_full = away == KN_E_FULL;
    kn_reply_problem(
        x, &(kn_problem){ .status = 503,
                          .code = is_full ? "disk_full" : "storage_readonly",
                          .title = is_full ? "Not enough disk space for the studio to begin" : KN_STORE_READONLY,
                          .detail = "the studio begins when its folder can be written; the log says why "
                                    "it cannot" });
}

static void on_request(kn_exchange *x, const kn_head *head) {
    kn_api *a = kn_exchange_listener(x);
    kn_compat_door door;
    bool other = kn_compat_is_meant(x, head, &door);
    if (!kn_guard_knows_page(&a->guard, x, head) || kn_page_answers(&a->page, x, head))
        return;
    if (!a->studio) {
        tell_away(x, a->away);
    } else if (a->mcp && kn_mcp_is_meant(head)) {
        if (kn_api_admits(a, x, head))
            kn_mcp_serve(a->mcp, x, head);
    } else if (other ? kn_compat_admits(a, x, &door) : is_open(head) || kn_api_admits(a, x, head))
        kn_router_request(routes, KN_COUNT(routes), x, other ? &door.head : head);
}

/* Nothing is there, or only the router's route while it waits for the body. */
static void on_end(kn_exchange *x) {
    void *user = *kn_exchange_user(x);
    kn_compat_let_go(kn_exchange_listener(x), x);
    const kn_route *route = user;
    if (user && (route < routes || route >= routes + KN_COUNT(routes)))
        kn_visit_end(user);
}

const kn_service kn_api_service = {
    .refused = on_refused,
    .request = on_request,
    .collected = kn_router_collected,
    .writable = kn_api_writable,
    .end = on_end,
};

bool kn_api_new(kn_loop *loop, const char *token, uint16_t port, kn_api **ret, kn_error *err) {
    kn_api *a = calloc(1, sizeof *a);
    if (!a)
        return kn_fail_nomem(err, sizeof *a);
    if (!kn_page_open(&a->page, err)) {
        free(a);
        return false;
    }
    a->guard.loop = loop;
    a->guard.port = port;
    memcpy(a->guard.token, token, KN_MIN(strlen(token), sizeof a->guard.token - 1));
    *ret = a;
    return true;
}

void kn_api_set_studio(kn_api *a, kn_studio *s) {
    a->studio = s;
}

void kn_api_set_away(kn_api *a, kn_code away) {
    a->away = away;
}

void kn_api_set_mcp(kn_api *a, kn_mcp *mcp) {
    a->mcp = mcp;
}

bool kn_api_give_token(void *api, char ret[KN_TOKEN_MAX + 1], kn_error *err) {
    (void)err;
    const kn_api *a = api;
    memcpy(ret, a->guard.token, sizeof a->guard.token);
    return true;
}

void kn_api_set_port(kn_api *a, uint16_t port) {
    a->guard.port = port;
}

void kn_api_free(kn_api *a) {
    if (!a)
        return;
    explicit_bzero(a, sizeof *a);
    free(a);
}
