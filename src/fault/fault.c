#include "fault/fault.h"

#include <stdio.h>
#include <string.h>

#include "base/status.h"

static const char *verb(plait_fault_kind kind)
{
    switch (kind) {
    case PLAIT_FAULT_DIED: return "died";
    case PLAIT_FAULT_LEFT: return "left the world";
    case PLAIT_FAULT_NOT_ENTERED: return "has not made the call";
    case PLAIT_FAULT_STUCK: return "made the call and does not move on";
    case PLAIT_FAULT_MISMATCH: return "made another call";
    case PLAIT_FAULT_ABORTED: return "aborted";
    case PLAIT_FAULT_FUNCTION: return "has a function that failed";
    case PLAIT_FAULT_NO_MEMORY: return "has no memory for the operation";
    case PLAIT_FAULT_NONE: break;
    }
    return "failed";
}

static void write_sentence(struct fault_record *record, const struct culprit *culprit)
{
    const plait_fault *fault = &record->fault;
    char where[320] = "", who[128] = "it is not known who is to blame";
    if (fault->call[0] != '\0' && fault->operation_number > 0)
        snprintf(where, sizeof where, "%s, operation %llu, %s: ", fault->communicator,
                 (unsigned long long)fault->operation_number, fault->call);
    else if (fault->call[0] != '\0')
        snprintf(where, sizeof where, "%s, %s: ", fault->communicator, fault->call);
    else
        snprintf(where, sizeof where, "%s: ", fault->communicator);
    if (culprit->rank >= 0)
        snprintf(who, sizeof who, "rank %d (pid %lld on %s) %s", culprit->rank, (long long)culprit->pid,
                 fault->host, verb(fault->kind));
    snprintf(record->sentence, sizeof record->sentence, "%s%s%s%s", where, who,
             fault->evidence[0] != '\0' ? ": " : "", fault->evidence);
}

void fault_write(struct fault_record *record, plait_fault_kind kind, plait_status status,
                 const struct culprit *culprit, const char *communicator, uint64_t number,
                 const char *operation, const char *call, const char *evidence)
{
    plait_fault *fault = &record->fault;
    *fault = (plait_fault){ .struct_size = sizeof *fault,
                            .kind = kind,
                            .status = status,
                            .culprit = culprit->rank,
                            .pid = culprit->pid,
                            .operation_number = number };
    snprintf(fault->host, sizeof fault->host, "%s", culprit->host != NULL ? culprit->host : "");
    snprintf(fault->operation, sizeof fault->operation, "%s", operation != NULL ? operation : "");
    snprintf(fault->call, sizeof fault->call, "%s", call != NULL ? call : "");
    snprintf(fault->communicator, sizeof fault->communicator, "%s", communicator != NULL ? communicator : "");
    snprintf(fault->evidence, sizeof fault->evidence, "%s", evidence != NULL ? evidence : "");
    write_sentence(record, culprit);
}

plait_status fault_give(const struct fault_record *record, plait_fault *fault)
{
    if (fault == NULL)
        return failure(PLAIT_INVALID_ARGUMENT, "fault is NULL; give a plait_fault to fill");
    size_t size = fault->struct_size;
    if (size < offsetof(plait_fault, status) || size > 65536)
        return failure(PLAIT_INVALID_ARGUMENT,
                       "fault->struct_size is %zu; set it to sizeof(plait_fault), %zu", size, sizeof *fault);
    size_t known = size < sizeof *fault ? size : sizeof *fault;
    memcpy(fault, &record->fault, known);
    if (size > known)
        memset((char *)fault + known, 0, size - known);
    fault->struct_size = size;
    return PLAIT_OK;
}
