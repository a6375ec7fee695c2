#include "base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

static atomic_int wanted = PLAIT_LOG_WARN;
static pthread_mutex_t sink_lock = PTHREAD_MUTEX_INITIALIZER;
static plait_log_sink sink;
static void *sink_context;

void log_set_level(plait_log_level level)
{
    atomic_store_explicit(&wanted, (int)level, memory_order_relaxed);
}

bool log_wants(plait_log_level level)
{
    return (int)level <= atomic_load_explicit(&wanted, memory_order_relaxed);
}

void plait_log_set_sink(plait_log_sink new_sink, void *context)
{
    pthread_mutex_lock(&sink_lock);
    sink = new_sink;
    sink_context = context;
    pthread_mutex_unlock(&sink_lock);
}

static const char *level_name(plait_log_level level)
{
    switch (level) {
    case PLAIT_LOG_ERROR: return "error";
    case PLAIT_LOG_WARN: return "warning";
    case PLAIT_LOG_INFO: return "info";
    case PLAIT_LOG_DEBUG: return "debug";
    }
    return "?";
}

void log_line(plait_log_level level, const char *format, ...)
{
    if (!log_wants(level))
        return;

    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);

    pthread_mutex_lock(&sink_lock);
    plait_log_sink to = sink;
    void *context = sink_context;
    pthread_mutex_unlock(&sink_lock);

    if (to != NULL)
        to(context, level, line);
    else
        fprintf(stderr, "plait[%d] %s: %s\n", (int)getpid(), level_name(level), line);
}
