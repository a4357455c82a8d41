#include "model/base/bytes.h"

#include <stdio.h>

byte_unit_t byte_unit(double bytes)
{
    static const char *const names[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    byte_unit_t unit = {names[0], 1};
    for (int i = 1; i < 5 && bytes / unit.bytes >= 1024; i++)
        unit = (byte_unit_t){names[i], unit.bytes * 1024};
    return unit;
}

const char *bytes_text(bytes_text_t text, size_t bytes)
{
    byte_unit_t unit = byte_unit((double)bytes);
    snprintf(text, sizeof(bytes_text_t), "%.*f %s", unit.bytes > 1, (double)bytes / unit.bytes, unit.name);
    return text;
}
