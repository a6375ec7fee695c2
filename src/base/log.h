/* The log: whole lines to one sink. Stays off the data path. */
#ifndef PLAIT_BASE_LOG_H
#define PLAIT_BASE_LOG_H

#include <stdbool.h>

#include "plait.h"

bool log_wants(plait_log_level level);
void log_line(plait_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...) log_line(PLAIT_LOG_ERROR, __VA_ARGS__)
#define log_warn(...) log_line(PLAIT_LOG_WARN, __VA_ARGS__)
#define log_info(...) log_line(PLAIT_LOG_INFO, __VA_ARGS__)
#define log_debug(...)                                                                                       \
    do {                                                                                                     \
        if (log_wants(PLAIT_LOG_DEBUG))                                                                      \
            log_line(PLAIT_LOG_DEBUG, __VA_ARGS__);                                                          \
    } while (0)

/* Applies a level's name from the settings. */
void log_set_level(plait_log_level level);

#endif
