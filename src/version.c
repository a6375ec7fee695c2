/* The library's version, from the one place that says it. */
#include "plait.h"

#define TEXT_OF(token) #token
#define TEXT(token) TEXT_OF(token)

const char *plait_version(void)
{
    return TEXT(PLAIT_VERSION_MAJOR) "." TEXT(PLAIT_VERSION_MINOR) "." TEXT(PLAIT_VERSION_PATCH);
}
