#include "text.h"

#include <math.h>

void text_number(FILE *stream, int width, double value)
{
    int decimals = value < 10 ? 3 : value < 100 ? 2 : value < 1000 ? 1 : 0;
    fprintf(stream, "%*.*f", width, decimals, value);
}

const char *text_size(size_t size, char *text)
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
    double value = (double)size;
    size_t unit = 0;
    for (; value >= 1024 && unit + 1 < sizeof units / sizeof units[0]; unit++)
        value /= 1024;
    snprintf(text, TEXT_SIZE_BYTES, "%.4g %s", value, units[unit]);
    return text;
}

void json_string(FILE *stream, const char *text)
{
    if (!text) {
        fputs("null", stream);
        return;
    }
    fputc('"', stream);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fprintf(stream, "\\%c", *text);
        else if ((unsigned char)*text < 0x20)
            fprintf(stream, "\\u%04x", (unsigned)*text);
        else
            fputc(*text, stream);
    }
    fputc('"', stream);
}

void json_number(FILE *stream, const char *name, double value)
{
    if (isfinite(value))
        fprintf(stream, ", \"%s\": %.9g", name, value);
    else
        fprintf(stream, ", \"%s\": null", name);
}
