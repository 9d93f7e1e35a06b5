#include "tree.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "scenario.h"

typedef struct path {
    char text[PATH_MAX];
} path;

static path below(const char *root, const char *fmt, ...) KN_PRINTF(2, 3);
static path below(const char *root, const char *fmt, ...) {
    path p;
    va_list args;
    int len = snprintf(p.text, sizeof p.text, "%s/", root);
    va_start(args, fmt);
    len += vsnprintf(p.text + len, sizeof p.text - (size_t)len, fmt, args);
    va_end(args);
    assert_true(len < (int)sizeof p.text);
    return p;
}

static void make_folders_above(const char *file) {
    char part[PATH_MAX];
    for (const char *p = strchr(file + 1, '/'); p; p = strchr(p + 1, '/')) {
        snprintf(part, sizeof part, "%.*s", (int)(p - file), file);
        assert_true(mkdir(part, 0700) == 0 || errno == EEXIST);
    }
}

static void write_file(const path *p, const char *text) {
    make_folders_above(p->text);
    FILE *f = fopen(p->text, "we");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

void tree_write(const char *root, const char *file, const char *text) {
    path p = below(root, "%s", file);
    write_file(&p, text);
}

static void make_link(const char *target, path p) {
    make_folders_above(p.text);
    assert_int_equal(symlink(target, p.text), 0);
}

static void write_number(path p, uint64_t n) {
    char text[32];
    snprintf(text, sizeof text, "%" PRIu64 "\n", n);
    write_file(&p, text);
}

/* Real drivers sit on PCI; "bus=platform" is what vgem looks like. */
static void make_node(const char *root, const scenario_row *row) {
    char node[32], driver[32], pci[32], bus[32], device[64], target[PATH_MAX];
    scenario_field(row, "node", node, sizeof node);
    scenario_field(row, "driver", driver, sizeof driver);
    scenario_field(row, "pci", pci, sizeof pci);
    if (!scenario_field(row, "bus", bus, sizeof bus))
        snprintf(bus, sizeof bus, "pci");
    snprintf(device, sizeof device, "sys/devices/bus0/%s", pci);
    const char *vendor = strcmp(driver, "xe") == 0       ? "0x8086\n"
                         : strcmp(driver, "amdgpu") == 0 ? "0x1002\n"
                         : strcmp(driver, "nvidia") == 0 ? "0x10de\n"
                                                         : "0x1af4\n";
    path p = below(root, "%s/vendor", device);
    write_file(&p, vendor);
    snprintf(target, sizeof target, "../../../bus/%s", bus);
    make_link(target, below(root, "%s/subsystem", device));
    snprintf(target, sizeof target, "../../../bus/%s/drivers/%s", bus, driver);
    make_link(target, below(root, "%s/driver", device));
    make_link("../..", below(root, "%s/drm/%s/device", device, node));
    snprintf(target, sizeof target, "../../devices/bus0/%s/drm/%s", pci, node);
    make_link(target, below(root, "sys/class/drm/%s", node));
    p = below(root, "dev/dri/%s", node);
    write_file(&p, "");
    if (strcmp(driver, "amdgpu") != 0)
        return;
    write_number(below(root, "%s/mem_info_vram_total", device), scenario_number(row, "vram"));
    write_number(below(root, "%s/mem_info_vram_used", device), scenario_number(row, "used"));
}

void tree_make(const char *root) {
    scenario_row row;
    for (unsigned i = 0; scenario_find("drm", i, &row); i++)
        make_node(root, &row);
}
