/* Lists of processors, as the system has them in its files: what is taken rises, and is within its limits. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cores.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char text[1024];
    if (size >= sizeof text)
        return 0;
    memcpy(text, data, size);
    text[size] = 0;
    kn_processor_range ranges[KN_PROCESSOR_RANGES_MAX];
    size_t count = 0;
    if (!kn_processor_list_read(text, ranges, &count))
        return 0;
    if (count < 1 || count > KN_PROCESSOR_RANGES_MAX)
        abort();
    for (size_t i = 0; i < count; i++)
        if (ranges[i].first > ranges[i].last || ranges[i].last >= KN_PROCESSORS_MAX ||
            (i && ranges[i].first <= ranges[i - 1].last))
            abort();
    return 0;
}
