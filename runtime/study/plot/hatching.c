#include "study/plot/hatching.h"

const yk_hatch *yk_hatch_of(yk_ink ink)
{
  static const yk_hatch hatches[YK_N_INKS] = {
      [YK_INK_HEAD] = {{{2, 2, 2, 2}, {6, 6, 6, 6}}, 2, 2},
      [YK_INK_ATTENTION] = {{{-2, 2, 2, -2}, {0, 8, 8, 0}, {6, 10, 10, 6}}, 3, 1},
      [YK_INK_OTHER] = {{{0, 2, 8, 2}, {0, 6, 8, 6}}, 2, 1},
      [YK_INK_REDUCE] = {{{-2, 6, 2, 10}, {0, 0, 8, 8}, {6, -2, 10, 2}}, 3, 1},
      [YK_INK_WAIT] = {{{0, 8, 8, 0}, {0, 0, 8, 8}}, 2, 1},
      [YK_INK_SAMPLE] = {{{2, 0, 2, 8}, {6, 0, 6, 8}}, 2, 1},
      [YK_INK_HOST] = {{{0, 4, 8, 4}, {4, 0, 4, 8}}, 2, 1},
  };
  return &hatches[ink];
}
