/* The AVX-512 tier, built with flags of its own: no other file may use what is compiled here but the init function. The
 * includes stand in the order in which they need each other. */
#include "compute/cpu/kernels.h"

#include "compute/cpu/vec_avx512.h"

#include "compute/cpu/simd_math.h"

#include "compute/cpu/simd_product.h"

#include "compute/cpu/simd_blocks.h"
#include "compute/cpu/simd_matrix.h"
#include "compute/cpu/simd_rows.h"
#include "compute/cpu/simd_transforms.h"

#include "compute/cpu/simd_tiles.h"

#include "compute/cpu/simd_table.h"

void kn_kernels_init_avx512(kn_kernels *k) {
    fill_table(k, "avx512");
    k->int8 = false; /* AVX2 has no more pairs of 16 bits at once than this has float32 */
}
