#include "tile_emulation.h"

#include "compute/cpu/amx_tiles.h"

#include "amx_emulated.h"

void emulate_amx(kn_kernels *k) {
    fill_tile_products(k);
}
