package org.arrowipc.spark;

import java.io.File;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.NotDirectoryException;
import java.nio.file.Path;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;

/** The folders of a file system: this machine's, whose links are followed, or one that Hadoop knows. */
interface Tree {
  /** What a path leads to; {@code key} tells a folder from others, whatever path led to it. */
  record Entry(String path, boolean folder, boolean file, long size, long modified, Object key) {
    String name() {
      return path.substring(path.lastIndexOf('/') + 1);
    }
  }

  /** Null where there is nothing. */
  Entry entry(String path) throws IOException;

  /** What a folder holds, sorted by name; nothing if it is gone. */
  List<Entry> entries(String folder) throws IOException;

  /** The names in a folder; none if there is no such. */
  List<String> names(String folder) throws IOException;

  byte[] bytes(String file) throws IOException;

  static String join(String folder, String name) {
    return folder.endsWith("/") ? folder + name : folder + "/" + name;
  }

  /** The folder that a path is in; of a file system's root, {@code /} or {@code viewfs://name/}, itself. */
  static String parent(String path) {
    int root = path.indexOf('/', path.contains("://") ? path.indexOf("://") + 3 : 0);
    return path.substring(0, Math.max(path.lastIndexOf('/'), root + 1));
  }

  /** The folders of this machine; a link that leads nowhere is an error unless such are ignored. */
  record Local(boolean ignoreMissing) implements Tree {
    @Override
    public Entry entry(String path) throws IOException {
      try {
        var found = Files.readAttributes(Path.of(path), BasicFileAttributes.class);
        long modified = found.lastModifiedTime().to(TimeUnit.MICROSECONDS);
        return new Entry(path, found.isDirectory(), found.isRegularFile(), found.size(), modified, found.fileKey());
      } catch (NoSuchFileException | NotDirectoryException gone) {
        return broken(path);
      } catch (IOException error) {
        if (Files.isSymbolicLink(Path.of(path))) { // one that leads to itself
          return broken(path);
        }
        throw error;
      }
    }

    private Entry broken(String path) {
      if (!ignoreMissing && Files.isSymbolicLink(Path.of(path))) {
        throw new ArrowIpcException.Usage(path + ": a link which leads nowhere");
      }
      return null;
    }

    @Override
    public List<Entry> entries(String folder) throws IOException {
      List<Entry> found = new ArrayList<>();
      for (String name : names(folder)) {
        Entry entry = Listing.isHidden(name) ? null : entry(join(folder, name));
        if (entry != null) {
          found.add(entry);
        }
      }
      return found;
    }

    @Override
    public List<String> names(String folder) {
      String[] names = new File(folder).list();
      return names == null ? List.of() : List.of(names).stream().sorted().toList();
    }

    @Override
    public byte[] bytes(String file) throws IOException {
      return Files.readAllBytes(Path.of(file));
    }
  }

  /** The folders of a file system of Hadoop's. */
  record Remote(Configuration configuration) implements Tree {
    private FileSystem system(String path) throws IOException {
      return new org.apache.hadoop.fs.Path(path).getFileSystem(configuration);
    }

    private static Entry described(String path, FileStatus found) {
      long modified = found.getModificationTime() * 1000;
      return new Entry(path, found.isDirectory(), found.isFile(), found.getLen(), modified, path);
    }

    @Override
    public Entry entry(String path) throws IOException {
      try {
        return described(path, system(path).getFileStatus(new org.apache.hadoop.fs.Path(path)));
      } catch (FileNotFoundException gone) {
        return null;
      }
    }

    @Override
    public List<Entry> entries(String folder) throws IOException {
      List<Entry> found = new ArrayList<>();
      for (FileStatus each : statuses(folder)) {
        String name = each.getPath().getName();
        String path = join(folder, name);
        Entry entry = Listing.isHidden(name) ? null : each.isSymlink() ? entry(path) : described(path, each);
        if (entry != null) {
          found.add(entry);
        }
      }
      return found;
    }

    @Override
    public List<String> names(String folder) throws IOException {
      return List.of(statuses(folder)).stream().map(each -> each.getPath().getName()).sorted().toList();
    }

    private FileStatus[] statuses(String folder) throws IOException {
      try {
        return system(folder).listStatus(new org.apache.hadoop.fs.Path(folder));
      } catch (FileNotFoundException gone) {
        return new FileStatus[0];
      }
    }

    @Override
    public byte[] bytes(String file) throws IOException {
      try (var stream = system(file).open(new org.apache.hadoop.fs.Path(file))) {
        return stream.readAllBytes();
      }
    }
  }
}
