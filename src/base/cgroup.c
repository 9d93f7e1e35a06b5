#include "base/cgroup.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

bool kn_system_read(const char *path, char *text, size_t room) {
    FILE *f = fopen(path, "re");
    if (!f)
        return false;
    size_t n = fread(text, 1, room - 1, f);
    text[n] = 0;
    fclose(f);
    return n > 0;
}

bool kn_cgroup_read(const kn_cgroup *g, const char *name, char *text, size_t room) {
    char path[PATH_MAX];
    int len = snprintf(path, sizeof path, "%s/%s", g->folder, name);
    return len < (int)sizeof path && kn_system_read(path, text, room);
}

/* "cpu,cpuacct" */
static bool lists(const char *controllers, size_t len, const char *name) {
    for (size_t from = 0, end = 0; from < len; from = end + 1) {
        for (end = from; end < len && controllers[end] != ',';)
            end++;
        if (end - from == strlen(name) && memcmp(controllers + from, name, end - from) == 0)
            return true;
    }
    return false;
}

/* group: "/a/b" */
static void visit_upwards(const char *root, const char *group, bool unified, kn_cgroup_visit_fn *visit, void *ctx) {
    char folder[PATH_MAX];
    size_t top = strlen(root);
    if (snprintf(folder, sizeof folder, "%s%s", root, group) >= (int)sizeof folder)
        return;
    const kn_cgroup g = { folder, unified };
    visit(ctx, &g);
    for (char *slash; (slash = strrchr(folder + top, '/'));) {
        *slash = 0;
        visit(ctx, &g);
    }
}

/* A line for each hierarchy: number, controllers, own group. The second generation's has no controllers. */
void kn_cgroup_each(const char *controller, kn_cgroup_visit_fn *visit, void *ctx) {
    char text[16 << 10], root[64], *rest = text;
    if (!kn_system_read("/proc/self/cgroup", text, sizeof text))
        return;
    for (char *line; (line = strsep(&rest, "\n"));) {
        char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group)
            continue;
        size_t len = (size_t)(group++ - ++controllers);
        bool unified = len == 0;
        snprintf(root, sizeof root, "/sys/fs/cgroup%s%s", unified ? "" : "/", unified ? "" : controller);
        if (unified || lists(controllers, len, controller))
            visit_upwards(root, group, unified, visit, ctx);
    }
}
