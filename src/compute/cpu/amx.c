/* The tier of processors with AMX, built with flags of its own: no other file may use what is compiled here but the
 * init function. It has what it adds to the tier avx512bf16. */
#include <immintrin.h>

#include "compute/cpu/amx_tiles.h"

void kn_kernels_init_amx(kn_kernels *k) {
    k->name = "amx";
    k->group_columns = KN_GROUP_COLUMNS;
    k->few_rows_bf16 = KN_FEW_ROWS;
    fill_tile_products(k);
}
