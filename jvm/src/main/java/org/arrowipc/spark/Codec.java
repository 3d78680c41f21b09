package org.arrowipc.spark;

import com.github.luben.zstd.Zstd;
import org.apache.spark.unsafe.Platform;

/**
 * LZ4 frames and ZSTD, from memory to memory; what a buffer claims is held against its frame before anything is
 * allocated.
 *
 * <p>LZ4 blocks are decoded here: Arrow's writers link the blocks of a frame, and no decoder that Spark ships takes
 * such blocks without going through streams of bytes.
 */
final class Codec {
  static final int LZ4 = 0;
  static final int ZSTD = 1;
  static final int PREFIX = 8;
  /** No LZ4 block holds more than so many times its bytes. */
  private static final int LZ4_EXPANSION = 255;
  private static final int LZ4_MAGIC = 0x184D2204;
  private static final int ZSTD_MAGIC = 0xFD2FB528;
  private static final int SKIPPABLE = 0x184D2A5;
  private static final long ZSTD_WINDOW = 1 << 27;
  private static final int ZSTD_BLOCK = 1 << 17;
  /** What writers may leave behind the values of a slice. */
  private static final long SPARE = 1 << 16;

  private Codec() {}

  /** What speaks against a frame of {@code claim} bytes; the field's length asks for {@code known} (-1: unknown). */
  static String refusal(int codec, long frame, long size, long claim, long known) {
    if (claim < 0) {
      return "a buffer claims " + claim + " uncompressed bytes";
    }
    boolean much = codec == LZ4 && claim / LZ4_EXPANSION > size;
    if (much || (known >= 0 && claim > known + SPARE && (claim - known - SPARE) / LZ4_EXPANSION > size)) {
      return "a buffer claims " + claim + " bytes in " + size + ", for values that need " + known;
    }
    return codec == LZ4 ? lz4Refusal(frame, size, claim) : zstdRefusal(frame, size, claim);
  }

  static void decompress(int codec, long frame, long size, long into, long claim) {
    boolean good;
    if (codec == LZ4) {
      good = lz4(frame, size, into, claim);
    } else {
      good = Zstd.decompressUnsafe(into, claim, frame, size) == claim; // an error is a negative number
    }
    if (!good) {
      throw new ArrowIpcException.Format("a compressed buffer of " + size + " bytes does not hold its " + claim);
    }
  }

  // -- ZSTD ----------------------------------------------------------------------------------------------------

  private static String zstdRefusal(long data, long size, long claim) {
    long least = 0;
    long most = 0;
    while (size > 0) {
      if (size < 8) {
        return "not a ZSTD frame";
      }
      int magic = Platform.getInt(null, data);
      long[] frame = {8 + (Platform.getInt(null, data + 4) & 0xffffffffL), -1, 0};
      if (magic == ZSTD_MAGIC) {
        String why = measure(data, size, frame);
        if (why != null) {
          return why;
        }
        if (frame[1] > claim - least) {
          return "the ZSTD frame states a larger size";
        }
        least += Math.max(frame[1], 0);
        most += frame[1] < 0 ? frame[2] : frame[1];
      } else if (magic >>> 4 != SKIPPABLE) {
        return "not a ZSTD frame";
      }
      data += frame[0];
      size -= frame[0];
    }
    return size < 0 ? "the ZSTD frame is cut short" : most < claim ? "the ZSTD frame holds less" : null;
  }

  /** Walk the block headers (RFC 8878, 3.1.1): bytes of the frame, those that it states, and most that it can hold. */
  private static String measure(long data, long size, long[] out) {
    int flags = Platform.getByte(null, data + 4) & 255;
    int id = 1 << (flags & 3) >> 1;
    int content = flags >> 6 > 0 ? 1 << (flags >> 6) : flags >> 5 & 1;
    long at = 5;
    if ((flags & 0x20) == 0) {
      int window = Platform.getByte(null, data + at++) & 255;
      if (8L + (window & 7) << 7 + (window >> 3) > ZSTD_WINDOW) {
        return "the ZSTD frame asks for a window of more than 128 MiB";
      }
    }
    if (size - at < id + content) {
      return "the ZSTD frame is cut short";
    }
    for (; id > 0; id--) {
      if (Platform.getByte(null, data + at++) != 0) {
        return "the ZSTD frame needs a dictionary";
      }
    }
    for (int i = content - 1; i >= 0; i--) {
      out[1] = Math.max(out[1], 0) << 8 | Platform.getByte(null, data + at + i) & 255;
    }
    out[1] = content == 2 ? out[1] + 256 : content == 0 ? -1 : out[1] & Long.MAX_VALUE;
    at += content;
    for (int block = 0; (block & 1) == 0;) {
      if (size - at < 3) {
        return "the ZSTD frame is cut short";
      }
      block = (Platform.getShort(null, data + at) & 0xffff) | (Platform.getByte(null, data + at + 2) & 255) << 16;
      int kind = block >> 1 & 3;
      at += 3 + (kind == 1 ? 1 : block >> 3);
      out[2] += kind == 2 ? ZSTD_BLOCK : block >> 3;
    }
    out[0] = at + ((flags & 4) != 0 ? 4 : 0);
    return out[0] > size ? "the ZSTD frame is cut short" : null;
  }

  // -- LZ4 -----------------------------------------------------------------------------------------------------

  private static String lz4Refusal(long frame, long size, long claim) {
    if (size < 7 || Platform.getInt(null, frame) != LZ4_MAGIC) {
      return "not an LZ4 frame (legacy and skippable frames are not allowed)";
    }
    int flags = Platform.getByte(null, frame + 4);
    if ((flags & 1) != 0) {
      return "the LZ4 frame needs a dictionary";
    }
    boolean states = (flags & 8) != 0;
    boolean other = states && (size < 15 || Platform.getLong(null, frame + 6) != claim);
    return other ? "the LZ4 frame states another size" : null;
  }

  /** All blocks of a frame, whose matches may reach into the blocks before; checksums are not looked at. */
  private static boolean lz4(long frame, long size, long into, long claim) {
    int flags = Platform.getByte(null, frame + 4);
    long at = frame + 7 + ((flags & 8) != 0 ? 8 : 0);
    long end = frame + size;
    long out = into;
    while (end - at >= 4) {
      int head = Platform.getInt(null, at);
      int length = head & Integer.MAX_VALUE;
      at += 4;
      if (head == 0) {
        return out == into + claim;
      }
      if (length > end - at) {
        return false;
      }
      if (head < 0) {
        if (length > into + claim - out) {
          return false;
        }
        Platform.copyMemory(null, at, null, out, length);
        out += length;
      } else {
        out = block(at, at + length, into, out, into + claim);
        if (out < 0) {
          return false;
        }
      }
      at += length + ((flags & 16) != 0 ? 4 : 0);
    }
    return false;
  }

  /** One block; the place behind its last byte, or -1. Reads within [at, end), writes within [start, limit). */
  private static long block(long at, long end, long start, long out, long limit) {
    while (at < end) {
      int token = Platform.getByte(null, at++) & 255;
      long literals = token >> 4;
      if (literals == 15) {
        for (int more = 255; more == 255; literals += more) {
          if (at >= end) {
            return -1;
          }
          more = Platform.getByte(null, at++) & 255;
        }
      }
      if (literals > end - at || literals > limit - out) {
        return -1;
      }
      if (literals <= 16 && end - at >= 16 && limit - out >= 16) {
        Platform.putLong(null, out, Platform.getLong(null, at));
        Platform.putLong(null, out + 8, Platform.getLong(null, at + 8));
      } else {
        Platform.copyMemory(null, at, null, out, literals);
      }
      at += literals;
      out += literals;
      if (at == end) {
        return out;
      }
      if (end - at < 2) {
        return -1;
      }
      int distance = Platform.getShort(null, at) & 0xffff;
      at += 2;
      long length = (token & 15) + 4;
      if (length == 19) {
        for (int more = 255; more == 255; length += more) {
          if (at >= end) {
            return -1;
          }
          more = Platform.getByte(null, at++) & 255;
        }
      }
      if (distance == 0 || distance > out - start || length > limit - out) {
        return -1;
      }
      repeat(out, distance, length, limit);
      out += length;
    }
    return -1;
  }

  /** Copy a match, which may overlap itself, eight bytes at a time where there is room for them. */
  private static void repeat(long out, int distance, long length, long limit) {
    long from = out - distance;
    long end = out + length;
    if (distance >= 8 && limit - end >= 8) {
      for (; out < end; out += 8, from += 8) {
        Platform.putLong(null, out, Platform.getLong(null, from));
      }
    } else {
      for (; out < end; out++, from++) {
        Platform.putByte(null, out, Platform.getByte(null, from));
      }
    }
  }
}
