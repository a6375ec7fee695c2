#include "base/status.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char sentence[SENTENCE_BYTES];

plait_status failure(plait_status status, const char *format, ...)
{
    /* Arguments may quote the previous sentence, so write beside it first. */
    char fresh[SENTENCE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(fresh, sizeof fresh, format, arguments);
    va_end(arguments);
    memcpy(sentence, fresh, sizeof sentence);
    return status;
}

plait_status failure_errno(plait_status status, int error, const char *format, ...)
{
    char what[SENTENCE_BYTES / 2];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    const char *name = strerrorname_np(error);
    return failure(status, "%s: %s (%s)", what, strerror(error), name != NULL ? name : "unknown");
}

plait_status status_of_errno(int error)
{
    switch (error) {
    case ENOMEM:
    case ENOSPC: return PLAIT_OUT_OF_MEMORY;
    case EMFILE:
    case ENFILE:
    case EAGAIN:
    case ENOBUFS:
    case EADDRNOTAVAIL: return PLAIT_OUT_OF_RESOURCES;
    default: return PLAIT_SYSTEM_ERROR;
    }
}

const char *failure_text(void)
{
    return sentence;
}

const char *plait_last_error(void)
{
    return failure_text();
}

const char *plait_status_name(plait_status status)
{
    switch (status) {
    case PLAIT_OK: return "PLAIT_OK";
    case PLAIT_IN_PROGRESS: return "PLAIT_IN_PROGRESS";
    case PLAIT_INVALID_ARGUMENT: return "PLAIT_INVALID_ARGUMENT";
    case PLAIT_INVALID_USAGE: return "PLAIT_INVALID_USAGE";
    case PLAIT_INVALID_SETTING: return "PLAIT_INVALID_SETTING";
    case PLAIT_UNSUPPORTED: return "PLAIT_UNSUPPORTED";
    case PLAIT_OUT_OF_MEMORY: return "PLAIT_OUT_OF_MEMORY";
    case PLAIT_OUT_OF_RESOURCES: return "PLAIT_OUT_OF_RESOURCES";
    case PLAIT_SYSTEM_ERROR: return "PLAIT_SYSTEM_ERROR";
    case PLAIT_MISMATCH: return "PLAIT_MISMATCH";
    case PLAIT_TRUNCATED: return "PLAIT_TRUNCATED";
    case PLAIT_CALLER_FAILED: return "PLAIT_CALLER_FAILED";
    case PLAIT_TIMED_OUT: return "PLAIT_TIMED_OUT";
    case PLAIT_PEER_LOST: return "PLAIT_PEER_LOST";
    case PLAIT_ABORTED: return "PLAIT_ABORTED";
    case PLAIT_START_FAILED: return "PLAIT_START_FAILED";
    case PLAIT_INTERNAL: return "PLAIT_INTERNAL";
    }
    return "PLAIT_UNKNOWN_STATUS";
}

plait_remedy plait_status_remedy(plait_status status)
{
    switch (status) {
    case PLAIT_OK:
    case PLAIT_IN_PROGRESS: return PLAIT_REMEDY_NONE;
    case PLAIT_INVALID_ARGUMENT:
    case PLAIT_INVALID_USAGE:
    case PLAIT_INVALID_SETTING:
    case PLAIT_UNSUPPORTED: return PLAIT_REMEDY_MEND_CALL;
    case PLAIT_OUT_OF_MEMORY:
    case PLAIT_OUT_OF_RESOURCES:
    case PLAIT_SYSTEM_ERROR: return PLAIT_REMEDY_RETRY;
    case PLAIT_MISMATCH:
    case PLAIT_TRUNCATED:
    case PLAIT_CALLER_FAILED: return PLAIT_REMEDY_GO_ON;
    case PLAIT_TIMED_OUT:
    case PLAIT_PEER_LOST:
    case PLAIT_ABORTED:
    case PLAIT_START_FAILED: return PLAIT_REMEDY_REBUILD;
    case PLAIT_INTERNAL: break;
    }
    return PLAIT_REMEDY_REPORT;
}
