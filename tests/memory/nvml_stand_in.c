/* A libnvidia-ml.so.1 that says what a script tells it to. NVML_SCRIPT names the script, which is
 * read again at each question: lines "WHO.WHAT=VALUE", where WHO is a GPU ("0"), a MIG slice of it
 * ("0/1") or "all". A line with the name of a function gives the error it returns, or "hang".
 * WITHOUT_NEW leaves out what drivers before 510 do not have. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef WITHOUT_ALL

enum { OK = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7 };
#define NOT_TOLD 0xffffffffffffffffull

typedef struct { char who[16]; } Device;
typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } Memory2;
typedef struct { unsigned pid; unsigned long long used; unsigned gpu_instance, instance; } Process;

static Device devices[512][17];

/* The value of WHO.WHAT, or NULL. */
static const char *say(const char *who, const char *what) {
    static char text[65536], key[128];
    const char *path = getenv("NVML_SCRIPT");
    FILE *file = path ? fopen(path, "rb") : NULL;
    size_t size = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file) fclose(file);
    text[size] = 0;
    snprintf(key, sizeof key, "%s.%s=", who, what);
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
        if (!strncmp(line, key, strlen(key))) return line + strlen(key);
    return NULL;
}

static unsigned long long number(const char *who, const char *what, unsigned long long otherwise) {
    const char *found = say(who, what);
    return found ? strtoull(found, NULL, 0) : otherwise;
}

static int error(const char *who, const char *function) {
    const char *found = say(who, function);
    while (found && !strcmp(found, "hang")) pause();
    return found ? atoi(found) : OK;
}

static int text_of(const char *who, const char *what, char *out, unsigned room) {
    const char *found = say(who, what);
    if (!found) return NOT_SUPPORTED;
    snprintf(out, room, "%s", found);
    return OK;
}

static Device *handle(unsigned gpu, unsigned place, const char *format) {
    Device *device = &devices[gpu % 512][place % 17];
    snprintf(device->who, sizeof device->who, format, gpu, place - 1);
    return device;
}

int nvmlInitWithFlags(unsigned flags) { (void)flags; return error("all", "nvmlInit"); }

int nvmlShutdown(void) { return error("all", "nvmlShutdown"); }

int nvmlDeviceGetCount_v2(unsigned *count) {
    *count = (unsigned)number("all", "count", 0);
    return error("all", "nvmlDeviceGetCount");
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device **device) {
    *device = handle(index, 0, "%u");
    return error((*device)->who, "nvmlDeviceGetHandleByIndex");
}

int nvmlDeviceGetName(Device *device, char *name, unsigned room) {
    int failed = error(device->who, "nvmlDeviceGetName");
    return failed ? failed : text_of(device->who, "name", name, room);
}

int nvmlDeviceGetUUID(Device *device, char *uuid, unsigned room) {
    int failed = error(device->who, "nvmlDeviceGetUUID");
    return failed ? failed : text_of(device->who, "uuid", uuid, room);
}

int nvmlDeviceGetMemoryInfo(Device *device, Memory *memory) {
    memory->total = number(device->who, "total", 0);
    memory->free = number(device->who, "free", 0);
    memory->used = memory->total - memory->free;
    return error(device->who, "nvmlDeviceGetMemoryInfo");
}

static int processes(Device *device, unsigned *count, Process *found) {
    int failed = error(device->who, "nvmlDeviceGetComputeRunningProcesses");
    const char *listed = say(device->who, "processes");
    unsigned n = 0;
    if (failed) return failed;
    for (const char *at = listed; at && *at; n++) {
        if (found && n < *count) {
            const char *size = strchr(at, ':') + 1;
            found[n].pid = (unsigned)strtoul(at, NULL, 0);
            found[n].used = *size == '?' ? NOT_TOLD : strtoull(size, NULL, 0);
        }
        at = strchr(at, ' ');
        if (at) at++;
    }
    *count = found ? (unsigned)number(device->who, "processes_count", n) : n;
    return n && !found ? INSUFFICIENT_SIZE : OK;
}

int nvmlDeviceGetComputeRunningProcesses_v2(Device *device, unsigned *count, Process *found) {
    return processes(device, count, found);
}

#ifndef WITHOUT_NEW

int nvmlDeviceGetComputeRunningProcesses_v3(Device *device, unsigned *count, Process *found) {
    return processes(device, count, found);
}

int nvmlDeviceGetMemoryInfo_v2(Device *device, Memory2 *memory) {
    memory->total = number(device->who, "total", 0);
    memory->free = number(device->who, "free", 0);
    memory->reserved = number(device->who, "reserved", 0);
    memory->used = memory->total - memory->free - memory->reserved;
    return error(device->who, "nvmlDeviceGetMemoryInfo_v2");
}

int nvmlDeviceGetMigMode(Device *device, unsigned *current, unsigned *pending) {
    const char *mode = say(device->who, "mig");
    *current = *pending = mode ? (unsigned)strtoul(mode, NULL, 0) : 0;
    return mode ? error(device->who, "nvmlDeviceGetMigMode") : NOT_SUPPORTED;
}

int nvmlDeviceGetMaxMigDeviceCount(Device *device, unsigned *count) {
    *count = (unsigned)number(device->who, "slices", 0);
    return error(device->who, "nvmlDeviceGetMaxMigDeviceCount");
}

int nvmlDeviceGetMigDeviceHandleByIndex(Device *device, unsigned index, Device **slice) {
    if (index >= 16) return INVALID_ARGUMENT;
    *slice = handle((unsigned)strtoul(device->who, NULL, 10), index + 1, "%u/%u");
    if (!say((*slice)->who, "uuid")) return NOT_FOUND;
    return error(device->who, "nvmlDeviceGetMigDeviceHandleByIndex");
}

#endif
#else
int there_is_nothing_in_here;
#endif
