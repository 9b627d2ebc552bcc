/* A libcuda that runs nothing and remembers what it was asked: enough to test a launcher without a
   GPU. Contexts are per thread, as in the real one. FAKE_GPUS sets how many GPUs it has (1). */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    uint64_t grid, threads, shared, stream, launches, modules, attribute, allocated, freed;
    uint64_t copied, waited, pinned, kept, graphs, closed;
    uint64_t params[24];
} Log;

static Log seen;
static int n_params, failure, keeping;
static char order[4096];
static char contexts[2];
static _Thread_local char *context;

Log *fake_log(void) { return &seen; }
void fake_expect(int n) { n_params = n; }
void fake_fail(int code) { failure = code; }

/* What was asked for, a letter a call; in brackets what a graph has kept. */
char *fake_order(void) { return order; }
static void note(char what) {
    size_t n = strlen(order);
    if (n + 1 < sizeof order) order[n] = what, order[n + 1] = 0;
}
static int answer(void) { return context ? failure : 201; }

int cuInit(unsigned flags) { return flags; }
int cuDeviceGetCount(int *n) {
    const char *text = getenv("FAKE_GPUS");
    *n = text ? atoi(text) : 1;
    return 0;
}
int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return 0; }
int cuDevicePrimaryCtxRetain(void **made, int device) { *made = &contexts[device]; return 0; }
int cuDevicePrimaryCtxRelease_v2(int device) { seen.closed++; return device > 1; }
int cuCtxSetCurrent(void *made) { context = made; return 0; }
int cuDeviceGetAttribute(int *value, int which, int device) {
    *value = which == 75 ? 9 : 0;
    return device > 1;
}
int cuGetErrorString(int code, const char **text) {
    *text = code == 700 ? "an illegal memory access was encountered" : "something else";
    return 0;
}
int cuModuleLoadData(void **module, const void *image) {
    if (memcmp(image, "\177ELF", 4)) return 200;
    if (!context) return 201;
    seen.modules++;
    *module = &n_params;
    return 0;
}
int cuModuleGetFunction(void **function, void *module, const char *name) {
    *function = module;
    return strlen(name) ? answer() : 500;
}
int cuFuncSetAttribute(void *function, int which, int value) {
    seen.attribute = which == 8 ? value : 0;
    return function ? answer() : 400;
}
int cuMemAlloc_v2(uint64_t *address, size_t bytes) {
    if (!context) return 201;
    seen.allocated += bytes;
    *address = 0x7f0000000000 + seen.allocated * 16;
    return answer();
}
int cuMemFree_v2(uint64_t address) { seen.freed += address != 0; return answer(); }
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                   unsigned bz, unsigned shared, void *stream, void **params, void **extra) {
    int code = answer();
    if (code) return code;
    if (!function || gy * gz * by * bz != 1 || extra) return 1;
    seen.grid = gx, seen.threads = bx, seen.shared = shared, seen.stream = (uint64_t)stream;
    note('k');
    if (keeping) return seen.kept++, 0;
    seen.launches++;
    for (int i = 0; i < n_params && i < 24; i++) memcpy(&seen.params[i], params[i], 8);
    return 0;
}
int cuMemGetInfo_v2(size_t *left, size_t *all) {
    *left = (context == contexts + 1 ? 32 : 16) << 20, *all = 1 << 30;
    return answer();
}
int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t n, void *stream) {
    note('i');
    if (keeping) return seen.kept++, 0;
    seen.copied += to && from ? n : 0;
    return answer();
}
int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t n, void *stream) {
    note('o');
    if (keeping) return seen.kept++, 0;
    seen.copied += to && from ? n : 0;
    return answer();
}
int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t n, void *stream) {
    note('c');
    if (keeping) return seen.kept++, 0;
    seen.copied += to && from ? n : 0;
    return answer();
}
int cuStreamCreate(void **stream, unsigned flags) { *stream = &seen; return flags == 1 ? answer() : 1; }
int cuStreamSynchronize(void *stream) {
    note('w');
    seen.waited += stream == &seen;
    return keeping ? 900 : answer();
}
int cuMemHostAlloc(void **address, size_t bytes, unsigned flags) {
    seen.pinned += bytes;
    return (*address = calloc(bytes, 1)) && flags == 1 ? answer() : 1;
}
int cuMemFreeHost(void *address) { free(address); return answer(); }
int cuStreamBeginCapture_v2(void *stream, unsigned mode) {
    if (keeping || mode != 2) return 1;
    note('[');
    return keeping = stream == &seen, answer();
}
int cuStreamEndCapture(void *stream, void **graph) {
    note(']');
    *graph = &seen.kept;
    return keeping = 0, stream == &seen ? answer() : 401;
}
int cuGraphInstantiateWithFlags(void **ready, void *graph, uint64_t flags) {
    *ready = graph;
    return flags || graph != &seen.kept ? 1 : answer();
}
int cuGraphDestroy(void *graph) { return graph == &seen.kept ? answer() : 400; }
int cuGraphLaunch(void *graph, void *stream) {
    note('g');
    seen.graphs += stream == &seen;
    return graph == &seen.kept ? answer() : 400;
}
int cuGraphExecDestroy(void *graph) { return graph == &seen.kept ? answer() : 400; }
int cuStreamWaitEvent(void *stream, void *event, unsigned flags) {
    seen.waited += event == &failure;
    return answer();
}
int cuEventCreate(void **event, unsigned flags) { *event = &failure; return flags == 2 ? answer() : 1; }
int cuEventRecord(void *event, void *stream) { return event == &failure ? answer() : 400; }
