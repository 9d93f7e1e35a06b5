/* Stands in for the driver's libnvidia-ml.so.1: the calls that are made, with the real layouts. Built twice; without
 * MEMORY_V2 it is a driver before 510. */
#include <stdio.h>
#include <string.h>

#include "scenario.h"

enum { SUCCESS = 0, UNINITIALIZED = 1, INVALID = 2, TOO_SMALL = 7, LOST = 15, WRONG_VERSION = 25, DEVICES = 16 };

struct pci {
    char legacy_id[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char id[32];
};
struct memory {
    unsigned long long total, free, used;
};
struct memory_v2 {
    unsigned version;
    unsigned long long total, reserved, free, used;
};

int nvmlInit_v2(void);
int nvmlShutdown(void);
int nvmlDeviceGetCount_v2(unsigned *n);
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **device);
int nvmlDeviceGetUUID(void *device, char *out, unsigned room);
int nvmlDeviceGetName(void *device, char *out, unsigned room);
int nvmlDeviceGetPciInfo_v3(void *device, struct pci *p);
int nvmlDeviceGetMemoryInfo(void *device, struct memory *m);
int nvmlDeviceGetMemoryInfo_v2(void *device, struct memory_v2 *m);

static char devices[DEVICES];
static int initialised;

static int row_of(void *device, const char *call, scenario_row *row) {
    int code = scenario_gate(call);
    if (code || !initialised)
        return code ? code : UNINITIALIZED;
    char *at = device;
    if (!at || at < devices || at >= devices + DEVICES)
        return INVALID;
    return scenario_find("nvml", (unsigned)(at - devices), row) ? SUCCESS : LOST;
}

int nvmlInit_v2(void) {
    int code = scenario_gate("Init_v2");
    initialised += !code;
    return code;
}

int nvmlShutdown(void) {
    initialised--;
    return scenario_gate("Shutdown");
}

int nvmlDeviceGetCount_v2(unsigned *n) {
    *n = scenario_count("nvml");
    return scenario_gate("DeviceGetCount_v2");
}

int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **device) {
    if (i >= DEVICES || i >= scenario_count("nvml"))
        return INVALID;
    *device = &devices[i];
    return scenario_gate("DeviceGetHandleByIndex_v2");
}

static int text_of(void *device, const char *call, const char *key, char *out, unsigned room) {
    scenario_row row;
    char text[128];
    int code = row_of(device, call, &row);
    if (code)
        return code;
    scenario_field(&row, key, text, sizeof text);
    if (strlen(text) >= room)
        return TOO_SMALL;
    snprintf(out, room, "%s", text);
    return SUCCESS;
}

int nvmlDeviceGetUUID(void *device, char *out, unsigned room) {
    return text_of(device, "DeviceGetUUID", "uuid", out, room);
}

int nvmlDeviceGetName(void *device, char *out, unsigned room) {
    return text_of(device, "DeviceGetName", "name", out, room);
}

int nvmlDeviceGetPciInfo_v3(void *device, struct pci *p) {
    scenario_row row;
    char text[64];
    unsigned function = 0;
    int code = row_of(device, "DeviceGetPciInfo_v3", &row);
    if (code)
        return code;
    memset(p, 0, sizeof *p);
    scenario_field(&row, "pci", text, sizeof text);
    if (sscanf(text, "%x:%x:%x.%x", &p->domain, &p->bus, &p->device, &function) != 4)
        return INVALID;
    p->device_id = 0x250410DE;
    snprintf(p->legacy_id, sizeof p->legacy_id, "%04X:%02X:%02X.%X", p->domain & 0xFFFF, p->bus & 0xFF,
             p->device & 0xFF, function & 0xF);
    snprintf(p->id, sizeof p->id, "%08X:%02X:%02X.%X", p->domain, p->bus & 0xFF, p->device & 0xFF, function & 0xF);
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo(void *device, struct memory *m) {
    scenario_row row;
    int code = row_of(device, "DeviceGetMemoryInfo", &row);
    if (code)
        return code;
    m->total = scenario_number(&row, "total");
    m->used = scenario_number(&row, "used") + scenario_number(&row, "reserved"); /* this one counts both as used */
    m->free = m->total - m->used;
    return SUCCESS;
}

#ifdef MEMORY_V2
int nvmlDeviceGetMemoryInfo_v2(void *device, struct memory_v2 *m) {
    scenario_row row;
    int code = row_of(device, "DeviceGetMemoryInfo_v2", &row);
    if (code)
        return code;
    if (m->version != (sizeof *m | 2u << 24))
        return WRONG_VERSION;
    m->total = scenario_number(&row, "total");
    m->used = scenario_number(&row, "used");
    m->reserved = scenario_number(&row, "reserved");
    m->free = m->total - m->used - m->reserved;
    return SUCCESS;
}
#endif
