/* The control groups that limit this process: its own and all above, of both generations of the kernel's interface. */
#ifndef KN_BASE_CGROUP_H
#define KN_BASE_CGROUP_H

#include <stdbool.h>
#include <stddef.h>

typedef struct kn_cgroup {
    const char *folder; /* its files are in */
    bool unified;       /* second generation: other names of files */
} kn_cgroup;

/* Calls visit for the group of this process that the controller ("cpu", "memory") limits, and for each group above. */
typedef void kn_cgroup_visit_fn(void *ctx, const kn_cgroup *g);
void kn_cgroup_each(const char *controller, kn_cgroup_visit_fn *visit, void *ctx);

/* What a file of the group, or any other small system file, holds, up to room - 1 bytes; false if nothing. Such files
 * say 0 as their size, so they are read to the end instead of whole. */
bool kn_cgroup_read(const kn_cgroup *g, const char *name, char *text, size_t room);
bool kn_system_read(const char *path, char *text, size_t room);

#endif
