package org.arrowipc.spark;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.URI;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.regex.Pattern;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;

/** Finds the files that the paths of a read mean: files, folders and patterns, as the Python source finds them. */
final class Listing {
  private static final Pattern MARKS = Pattern.compile("[*?\\[{]");
  private static final Pattern SCHEME = Pattern.compile("([A-Za-z][A-Za-z0-9+.-]+):.*", Pattern.DOTALL);
  private static final Pattern BRACES = Pattern.compile("\\{([^{}]*)\\}");

  private final SourceOptions options;
  private final Configuration configuration;

  Listing(SourceOptions options, Configuration configuration) {
    this.options = options;
    this.configuration = configuration;
  }

  /** The files of all paths, in their order, sorted within each. */
  List<FoundFile> files() {
    Map<String, FoundFile> found = new LinkedHashMap<>();
    try {
      for (String path : options.paths()) {
        var files = of(path);
        if (files.isEmpty()) {
          throw new ArrowIpcException.Usage(path + ": no such file, and no file found under it");
        }
        files.forEach(file -> found.putIfAbsent(file.path(), file));
      }
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
    return found.values().stream().filter(this::inTime).toList();
  }

  private boolean inTime(FoundFile file) {
    long time = file.modified() / 1000;
    return time > options.modifiedAfter() && time < options.modifiedBefore();
  }

  /** Whether a path names a file system, other than this machine's. */
  static boolean isFar(String path) {
    return path.contains("://") && !path.startsWith("file:") && !new java.io.File(path).exists();
  }

  /** The path as its tree spells it. */
  private String located(String path) {
    var scheme = SCHEME.matcher(path);
    if (!scheme.matches() || new java.io.File(path).exists()) {
      return java.nio.file.Path.of(path).toAbsolutePath().normalize().toString();
    }
    String kind = scheme.group(1).toLowerCase();
    if (kind.equals("file")) {
      return java.nio.file.Path.of(URI.create(path.replace(" ", "%20")).getPath()).normalize().toString();
    }
    try {
      if (kind.startsWith("http") || FileSystem.getFileSystemClass(kind, configuration) == null) {
        throw new Declined("Hadoop has no file system " + kind);
      }
    } catch (IOException unknown) {
      throw new Declined("Hadoop has no file system " + kind);
    }
    String text = new org.apache.hadoop.fs.Path(path).toString(); // no slash twice, and none at the end
    return text.indexOf('/', text.indexOf("://") + 3) < 0 ? text + "/" : text;
  }

  private Collection<FoundFile> of(String path) throws IOException {
    String text = located(path);
    Tree tree = text.startsWith("/") ? new Tree.Local(options.ignoreMissing()) : new Tree.Remote(configuration);
    Map<String, FoundFile> found = new TreeMap<>();
    var mark = MARKS.matcher(text);
    Tree.Entry entry = mark.find() && !(tree instanceof Tree.Local) ? null : tree.entry(text);
    if (entry != null) {
      String root = entry.folder() ? text : null;
      var files = entry.folder() ? Ledger.settled(() -> below(tree, List.of(entry)), tree, text) : List.of(file(entry));
      files.forEach(file -> found.put(file.path(), keyed(file, root)));
    } else if (mark.find(0)) {
      String fixed = Tree.parent(text.substring(0, mark.start()) + "x");
      boolean deep = text.contains("**");
      var files = Ledger.settled(() -> {
        Map<Object, Tree.Entry> matches = new LinkedHashMap<>();
        for (String spelt : spelt(text.substring(fixed.length()))) {
          match(tree, fixed, List.of(spelt.replaceFirst("^/", "").split("/")), matches);
        }
        return below(tree, matches.values());
      }, tree, fixed);
      int skipped = deep ? 0 : text.substring(fixed.length()).replaceAll("^/|/$", "").split("/").length;
      files.forEach(file -> found.put(file.path(), keyed(file, deep ? fixed : up(file.path(), fixed, skipped))));
    }
    return found.values().stream().filter(file -> passes(file.path())).toList();
  }

  /** The folder in which keys begin: below it so many parts of a pattern matched; null where there is none left. */
  private static String up(String path, String fixed, int skipped) {
    int at = fixed.endsWith("/") ? fixed.length() - 1 : fixed.length();
    for (int each = 0; each < skipped && at >= 0; each++) {
      at = path.indexOf('/', at + 1);
    }
    return at < 0 ? null : path.substring(0, at);
  }

  private FoundFile file(Tree.Entry entry) {
    return new FoundFile(entry.path(), entry.size(), entry.modified(), Map.of());
  }

  /** The same with its keys, of the folders below the base path, or a root. */
  private FoundFile keyed(FoundFile file, String root) {
    String base = options.basePath() == null ? root : located(options.basePath());
    String begin = base == null ? null : Tree.join(base, "");
    if (begin == null || Boolean.TRUE.equals(options.recursive())) {
      return file;
    }
    if (!file.path().startsWith(begin)) {
      throw new ArrowIpcException.Usage("option basePath: " + file.path() + " does not lie under " + base);
    }
    return new FoundFile(file.path(), file.size(), file.modified(), Folders.keys(file.path(), begin.length()));
  }

  private boolean passes(String path) {
    String name = path.substring(path.lastIndexOf('/') + 1);
    return options.nameFilter() == null || options.nameFilter().stream().anyMatch(each -> fits(name, each));
  }

  /** The files among some entries and at any depth below them; no folder is visited twice, so loops end. */
  private Collection<FoundFile> below(Tree tree, Collection<Tree.Entry> entries) throws IOException {
    List<FoundFile> found = new ArrayList<>();
    Set<Object> seen = new HashSet<>();
    var left = new java.util.ArrayDeque<>(entries);
    while (!left.isEmpty()) {
      Tree.Entry next = left.poll();
      if (next.file()) {
        found.add(file(next));
      } else if (next.folder() && seen.add(next.key())) {
        for (Tree.Entry each : tree.entries(next.path())) {
          if (!each.folder() || !Boolean.FALSE.equals(options.recursive()) || each.name().contains("=")) {
            left.add(each);
          }
        }
      }
    }
    return found;
  }

  private void match(Tree tree, String folder, List<String> parts, Map<Object, Tree.Entry> matches) throws IOException {
    boolean deep = parts.get(0).equals("**");
    List<String> rest = parts.subList(1, parts.size());
    if (deep && !rest.isEmpty()) {
      match(tree, folder, rest, matches);
    }
    for (Tree.Entry entry : tree.entries(folder)) {
      if (deep && entry.folder()) {
        match(tree, entry.path(), parts, matches);
      }
      if ((deep && rest.isEmpty()) || (!deep && fits(entry.name(), parts.get(0)))) {
        if (rest.isEmpty()) {
          matches.putIfAbsent(entry.path(), entry);
        } else if (entry.folder()) {
          match(tree, entry.path(), rest, matches);
        }
      }
    }
  }

  /** The alternatives of {@code {a,b}}, spelt out. */
  static List<String> spelt(String pattern) {
    var found = BRACES.matcher(pattern);
    if (!found.find()) {
      return List.of(pattern);
    }
    List<String> all = new ArrayList<>();
    for (String each : found.group(1).split(",", -1)) {
      all.addAll(spelt(pattern.substring(0, found.start()) + each + pattern.substring(found.end())));
    }
    return all;
  }

  /** Whether a name fits a pattern with {@code * ? [a-z] [!a]}. */
  private static boolean fits(String name, String pattern) {
    StringBuilder regex = new StringBuilder();
    for (int at = 0; at < pattern.length(); at++) {
      char mark = pattern.charAt(at);
      int end = mark == '[' ? pattern.indexOf(']', at + 2) : -1;
      if (mark == '*') {
        regex.append(".*");
      } else if (mark == '?') {
        regex.append('.');
      } else if (end > 0) {
        String inside = pattern.substring(at + 1, end).replace("\\", "\\\\").replace("[", "\\[").replace("&", "\\&");
        regex.append('[').append(inside.startsWith("!") ? "^" + inside.substring(1) : inside).append(']');
        at = end;
      } else {
        regex.append(Pattern.quote(String.valueOf(mark)));
      }
    }
    return Pattern.compile(regex.toString(), Pattern.DOTALL).matcher(name).matches();
  }

  /** Whether a name is nobody's data, as in Spark: {@code _day=1} does not count. */
  static boolean isHidden(String name) {
    return name.startsWith(".") || (name.startsWith("_") && !name.contains("=")) || name.endsWith("._COPYING_");
  }
}
