package org.arrowipc.spark;

import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Paths;
import java.nio.file.StandardOpenOption;
import org.apache.arrow.memory.ArrowBuf;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.Path;

/**
 * The bytes of one file, read by position.
 *
 * <p>Never mapped: offsets are proven once and followed later, so they must not change in between; and a mapped file
 * that shrinks is an error of the whole VM, where a read that comes short is an exception of one task.
 */
public abstract class Source implements AutoCloseable {
  private static final int PIECE = 1 << 30;
  /** Files of up to so many bytes are read at once: a small file costs what its requests cost. */
  private static final int SMALL = 1 << 16;

  private final long size;
  private byte[] small;

  Source(long size) { this.size = size; }

  /** Bytes of the file when it was opened. */
  public final long size() { return size; }

  /** Fill what remains of {@code into} from a position on. */
  abstract void fill(long position, ByteBuffer into) throws IOException;

  @Override
  public abstract void close() throws IOException;

  /** Some bytes on the heap, as metadata is read. */
  ByteBuffer read(long position, int length) throws IOException {
    if (size <= SMALL && small == null) {
      ByteBuffer whole = ByteBuffer.allocate((int) size);
      fill(0, whole);
      small = whole.array();
    }
    ByteBuffer found = ByteBuffer.allocate(length);
    if (small != null) {
      found.put(small, (int) position, length);
    } else {
      fill(position, found);
    }
    return found.flip();
  }

  /** Some bytes, of which there may be more than 2 GiB, into a buffer at a place. */
  void read(long position, long length, ArrowBuf into, long at) throws IOException {
    if (small != null) {
      into.setBytes(at, small, (int) position, length);
      return;
    }
    for (long done = 0; done < length; done += PIECE) {
      int piece = (int) Math.min(PIECE, length - done);
      fill(position + done, into.nioBuffer(at + done, piece));
    }
  }

  /** A file of this machine. */
  public static Source local(String path) throws IOException {
    FileChannel channel = FileChannel.open(Paths.get(path), StandardOpenOption.READ);
    return new Source(channel.size()) {
      @Override
      void fill(long position, ByteBuffer into) throws IOException {
        while (into.hasRemaining()) {
          int count = channel.read(into, position);
          if (count < 0) {
            throw new EOFException(path + " ends at byte " + position + ": it was longer when it was opened");
          }
          position += count;
        }
      }

      @Override public void close() throws IOException { channel.close(); }
    };
  }

  /** A file of any file system that Hadoop knows, of a size that its listing gave. */
  static Source far(Path path, long size, Configuration configuration) throws IOException {
    FSDataInputStream stream = path.getFileSystem(configuration).open(path);
    return new Source(size) {
      @Override
      void fill(long position, ByteBuffer into) throws IOException {
        byte[] piece = new byte[Math.min(into.remaining(), 1 << 20)];
        while (into.hasRemaining()) {
          int count = Math.min(piece.length, into.remaining());
          stream.readFully(position, piece, 0, count);
          into.put(piece, 0, count);
          position += count;
        }
      }

      @Override public void close() throws IOException { stream.close(); }
    };
  }
}
