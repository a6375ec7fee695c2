#include "transport/ofi_library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct ofi_library opened;
static plait_status outcome;
static char reason[320];

/* The oldest whose behaviour is known (Debian 12). */
enum { OLDEST_MAJOR = 1, OLDEST_MINOR = 17 };

static const int hooked[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGINT, SIGTERM };
enum { HOOKED = sizeof hooked / sizeof hooked[0] };

/* Environment that makes the efa provider abort the process (libfabric 1.17 to 2.x): refused instead. */
static const char *deadly_variable(void)
{
    static const char *const deadly[] = { "FI_EFA_MTU_SIZE", "FI_EFA_TX_IOV_LIMIT", "FI_EFA_RX_IOV_LIMIT" };
    for (size_t i = 0; i < sizeof deadly / sizeof deadly[0]; i++)
        if (getenv(deadly[i]) != NULL)
            return deadly[i];
    const char *interface = getenv("FI_EFA_IFACE"), *credits = getenv("FI_EFA_TX_MIN_CREDITS");
    if (interface != NULL && interface[0] == '\0')
        return "FI_EFA_IFACE";
    return credits != NULL && atoi(credits) <= 0 ? "FI_EFA_TX_MIN_CREDITS" : NULL;
}

static void refuse(plait_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void refuse(plait_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);
    outcome = status;
}

static bool find_functions(void *handle)
{
    const struct {
        const char *name;
        void *place;
    } functions[] = {
        { "fi_getinfo", &opened.getinfo },   { "fi_freeinfo", &opened.freeinfo },
        { "fi_dupinfo", &opened.dupinfo },   { "fi_fabric", &opened.fabric },
        { "fi_strerror", &opened.strerror },
    };
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        void *function = dlsym(handle, functions[i].name);
        if (function == NULL)
            return false;
        memcpy(functions[i].place, &function, sizeof function);
    }
    return true;
}

/* Providers hook signals when they are loaded and when they are first asked. */
static void load(void)
{
    void *handle = dlopen("libfabric.so.1", RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        refuse(PLAIT_UNSUPPORTED, "libfabric can't be loaded (%s); install it (Debian: libfabric1)",
               dlerror());
        return;
    }
    uint32_t (*version)(void);
    void *function = dlsym(handle, "fi_version");
    memcpy(&version, &function, sizeof version);
    if (function == NULL || !find_functions(handle)) {
        refuse(PLAIT_UNSUPPORTED, "libfabric.so.1 lacks functions that every version of it has");
        return;
    }
    opened.running = version();
    uint32_t compiled = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION);
    opened.version = opened.running < compiled ? opened.running : compiled;
    if (opened.running < FI_VERSION(OLDEST_MAJOR, OLDEST_MINOR)) {
        refuse(PLAIT_UNSUPPORTED, "libfabric %u.%u is too old; Plait needs %d.%d or newer",
               FI_MAJOR(opened.running), FI_MINOR(opened.running), OLDEST_MAJOR, OLDEST_MINOR);
        return;
    }
    struct fi_info *any = NULL;
    if (opened.getinfo(opened.version, NULL, NULL, 0, NULL, &any) == 0)
        opened.freeinfo(any);
}

static void open_once(void)
{
    struct sigaction before[HOOKED];
    const char *variable = deadly_variable();
    if (variable != NULL) {
        refuse(PLAIT_INVALID_SETTING, "%s is set to what makes libfabric abort the process; unset it",
               variable);
        return;
    }
    for (int i = 0; i < HOOKED; i++)
        sigaction(hooked[i], NULL, &before[i]);
    load();
    for (int i = 0; i < HOOKED; i++)
        sigaction(hooked[i], &before[i], NULL);
}

plait_status ofi_library_open(const struct ofi_library **library)
{
    pthread_once(&once, open_once);
    if (outcome != PLAIT_OK)
        return failure(outcome, "%s", reason);
    *library = &opened;
    return PLAIT_OK;
}
