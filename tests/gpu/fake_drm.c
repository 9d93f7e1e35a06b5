/* Stands in for the kernel's DRM drivers: answers what is asked of any open file that is named like a render node of
 * the scenario. Linked in place of ioctl (--wrap). */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "scenario.h"

#define REQUEST_VERSION  0xC0406400ul
#define REQUEST_XE_QUERY 0xC0286440ul

struct version {
    int32_t major, minor, patch, pad;
    uint64_t name_len, name, date_len, date, desc_len, desc;
};
struct query {
    uint64_t extensions;
    uint32_t query, size;
    uint64_t data, reserved[2];
};
struct region {
    uint16_t class, instance;
    uint32_t min_page;
    uint64_t total, used, cpu_visible, cpu_visible_used, reserved[6];
};
struct regions {
    uint32_t count, pad;
    struct region region[2];
};

int __real_ioctl(int fd, unsigned long request, ...);
int __wrap_ioctl(int fd, unsigned long request, ...);

static int fail(int number) {
    errno = number;
    return -1;
}

static bool row_of(int fd, scenario_row *row) {
    char link[32], path[256], node[32];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, path, sizeof path - 1);
    path[len > 0 ? len : 0] = 0;
    const char *slash = strrchr(path, '/');
    for (unsigned i = 0; slash && scenario_find("drm", i, row); i++)
        if (scenario_field(row, "node", node, sizeof node) && strcmp(node, slash + 1) == 0)
            return true;
    return false;
}

static int answer_version(const scenario_row *row, struct version *v) {
    char driver[32];
    int code = scenario_gate("drm-version");
    if (code)
        return fail(code);
    scenario_field(row, "driver", driver, sizeof driver);
    size_t len = strlen(driver);
    if (v->name && v->name_len)
        memcpy((void *)(uintptr_t)v->name, driver, v->name_len < len ? v->name_len : len);
    v->name_len = len;
    v->date_len = v->desc_len = 0;
    return 0;
}

/* "announced=B" announces another size than the answer has, as a broken driver would. */
static int answer_query(const scenario_row *row, struct query *q) {
    int code = scenario_gate("xe-query");
    if (code)
        return fail(code);
    if (q->query != 1 || q->extensions || q->reserved[0] || q->reserved[1])
        return fail(EINVAL);
    uint64_t vram = scenario_number(row, "vram");
    struct regions r = { .count = vram ? 2 : 1 };
    r.region[0] = (struct region){ .class = 0, .total = (uint64_t)16 << 30 };
    r.region[1] = (struct region){ .class = 1, .instance = 1, .total = vram, .used = scenario_number(row, "used") };
    uint32_t size = (uint32_t)(8 + r.count * sizeof r.region[0]);
    if (!q->size) {
        q->size = (uint32_t)scenario_number(row, "announced");
        q->size = q->size ? q->size : size;
        return 0;
    }
    if (q->size != size) /* the kernel insists on it */
        return fail(EINVAL);
    memcpy((void *)(uintptr_t)q->data, &r, size);
    return 0;
}

int __wrap_ioctl(int fd, unsigned long request, ...) {
    scenario_row row;
    va_list args;
    va_start(args, request);
    void *argument = va_arg(args, void *);
    va_end(args);
    if ((request >> 8 & 0xFF) != 'd' || !row_of(fd, &row))
        return __real_ioctl(fd, request, argument);
    if (request == REQUEST_VERSION)
        return answer_version(&row, argument);
    return request == REQUEST_XE_QUERY ? answer_query(&row, argument) : fail(EINVAL);
}
