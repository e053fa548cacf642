"""AWQ "gemm" packing: 4-bit integers to and from the int32 words of a checkpoint.

A word of qweight [K, N/8] or qzeros [K/g, N/8] holds eight neighbouring columns of one row.  Its nibble i (bits
4i..4i+3) is column 8c + PACK_ORDER[i]; so column j of the eight sits at bit 4 * UNPACK_ORDER[j].  A weight is
w[k, n] = scales[k // g, n] * (q[k, n] - z[k // g, n]), and a linear layer computes y = x w with w of shape [K, N],
the transpose of torch.nn.Linear's weight.
"""

import numpy as np

PACK_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)
UNPACK_ORDER = (0, 4, 1, 5, 2, 6, 3, 7)


def pack(values):
    """[rows, N] integers 0..15 -> [rows, N/8] int32 words; N must be a multiple of 8."""
    values = np.asarray(values)
    rows, columns = values.shape
    if columns % 8 or values.min() < 0 or values.max() > 15:
        raise ValueError(f"cannot pack {values.shape}: N must be a multiple of 8 and values 0..15")
    words = np.zeros((rows, columns // 8), dtype=np.uint32)
    for nibble, column in enumerate(PACK_ORDER):
        words |= values[:, column::8].astype(np.uint32) << np.uint32(4 * nibble)
    return words.view(np.int32)


def unpack(words):
    """[rows, N/8] int32 words -> [rows, N] uint8 integers 0..15.  Written column by column from UNPACK_ORDER,
    independently of pack(), so that each checks the other."""
    words = np.ascontiguousarray(words).view(np.uint32)
    values = np.empty((words.shape[0], words.shape[1] * 8), dtype=np.uint8)
    for n in range(values.shape[1]):
        values[:, n] = (words[:, n // 8] >> np.uint32(4 * UNPACK_ORDER[n % 8])) & np.uint32(15)
    return values


def dequantize(qweight, qzeros, scales):
    """The exact float32 weight [K, N] of a packed layer: s * (q - z), scales widened from their 16 bits."""
    q = unpack(qweight).astype(np.float32)
    z = unpack(qzeros).astype(np.float32)
    s = np.asarray(scales, dtype=np.float32)
    group = q.shape[0] // s.shape[0]
    if q.shape[0] % s.shape[0] or z.shape != s.shape:
        raise ValueError(f"groups do not fit: q {q.shape}, z {z.shape}, s {s.shape}")
    return np.repeat(s, group, axis=0) * (q - np.repeat(z, group, axis=0))
