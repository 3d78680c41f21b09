package org.arrowipc.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;

/** Which files of a directory count while Python writes to it, as its newest entry in {@code _commits} says. */
record Ledger(
    long number, long overwritten, Set<String> started, Map<String, Long> replaced, Map<String, Long> ended, long oldest) {
  static final String FOLDER = "_commits";

  private static final int VERSION = 1;
  private static final int MOST_ENDED = 64;
  private static final int TRIES = 20;
  private static final Pattern ENTRY = Pattern.compile("(\\d{20})\\.json");
  private static final Pattern JOB = Pattern.compile("(?<![0-9a-f])[0-9a-f]{32}(?![0-9a-f])");
  private static final ObjectMapper JSON = new ObjectMapper();

  interface Listed {
    Collection<FoundFile> files() throws IOException;
  }

  /** The files of a listing that count, all as of one moment: ledgers are read before and after it. */
  static Collection<FoundFile> settled(Listed listing, Tree tree, String directory) throws IOException {
    Map<String, Ledger> before = new HashMap<>();
    for (String each : above(directory)) {
      before.put(each, of(tree, each));
    }
    for (int tried = 0; tried < TRIES; tried++) {
      Collection<FoundFile> files = listing.files();
      Map<String, Ledger> now = new HashMap<>();
      boolean follows = true;
      for (String each : directories(files, before.keySet())) {
        Ledger ledger = of(tree, each);
        now.put(each, ledger);
        follows &= ledger == null || ledger.follows(before.get(each));
      }
      if (follows) {
        for (var entry : now.entrySet()) {
          if (entry.getValue() != null) {
            files = entry.getValue().counting(files, entry.getKey(), before.get(entry.getKey()));
          }
        }
        return files;
      }
      before = now;
    }
    throw new IOException(directory + ": it is overwritten faster than it can be listed");
  }

  /** The directories whose ledgers are about one: itself, and those of keys with the one that they are in. */
  private static List<String> above(String directory) {
    var found = new java.util.ArrayList<>(List.of(directory));
    while (directory.substring(directory.lastIndexOf('/') + 1).contains("=")) {
      directory = Tree.parent(directory);
      found.add(directory);
    }
    return found;
  }

  private static Set<String> directories(Collection<FoundFile> files, Set<String> known) {
    Set<String> seen = new HashSet<>(known);
    for (FoundFile file : files) {
      for (String each = Tree.parent(file.path()); seen.add(each) && each.length() > 1; ) {
        each = Tree.parent(each);
      }
    }
    return seen;
  }

  private static Ledger of(Tree tree, String directory) throws IOException {
    String where = Tree.join(directory, FOLDER);
    for (int tried = 0; tried < TRIES; tried++) {
      String newest = null;
      for (String name : tree.names(where)) {
        if (ENTRY.matcher(name).matches() && (newest == null || name.compareTo(newest) > 0)) {
          newest = name;
        }
      }
      if (newest == null) {
        return null;
      }
      try {
        return parsed(newest, tree.bytes(Tree.join(where, newest)), where);
      } catch (FileNotFoundException | java.nio.file.NoSuchFileException gone) {
        continue; // others entered more meanwhile, and removed this one
      }
    }
    throw new IOException(where + ": its entries change faster than they can be read");
  }

  private static Ledger parsed(String name, byte[] data, String where) throws IOException {
    JsonNode found;
    try {
      found = JSON.readTree(data);
    } catch (com.fasterxml.jackson.core.JacksonException error) {
      found = null;
    }
    if (found == null || found.path("version").asInt() != VERSION || !found.path("ended").isArray()) {
      throw new Declined(where + ": " + name + " is not of a form that is known here");
    }
    Map<String, Long> ended = new LinkedHashMap<>();
    found.path("ended").forEach(each -> ended.put(each.path(1).asText(), each.path(0).asLong()));
    Map<String, Long> replaced = new HashMap<>();
    found.path("replaced").properties().forEach(each -> replaced.put(each.getKey(), each.getValue().asLong()));
    Set<String> started = new HashSet<>();
    found.path("started").fieldNames().forEachRemaining(started::add);
    long oldest = ended.size() < MOST_ENDED ? Long.MIN_VALUE : found.path("ended").path(0).path(0).asLong();
    long number = Long.parseLong(name.substring(0, 20));
    return new Ledger(number, found.path("overwritten").asLong(), started, replaced, ended, oldest);
  }

  /** Whether a listing made between two entries lacks nothing that counted before. */
  private boolean follows(Ledger before) {
    return before != null && before.number <= number && overwritten <= before.number && oldest <= before.number;
  }

  /** The files but those in a directory that are of jobs that did not end before, or were replaced. */
  private Collection<FoundFile> counting(Collection<FoundFile> files, String directory, Ledger before) {
    Set<String> jobs = new HashSet<>(started);
    jobs.addAll(before.started);
    ended.forEach((job, since) -> {
      if (since > before.number) {
        jobs.add(job);
      }
    });
    var links = before.replaced.keySet().stream().filter(name -> name.endsWith("/")).toList();
    if (jobs.isEmpty() && before.replaced.isEmpty()) {
      return files;
    }
    String begin = Tree.join(directory, "");
    return files.stream()
        .filter(file -> {
          if (!file.path().startsWith(begin)) {
            return true;
          }
          String name = file.path().substring(begin.length());
          Long when = before.replaced.get(name);
          if ((when != null && when == file.modified()) || links.stream().anyMatch(name::startsWith)) {
            return false;
          }
          var found = JOB.matcher(name.substring(name.lastIndexOf('/') + 1));
          return found.results().noneMatch(job -> jobs.contains(job.group()));
        })
        .toList();
  }
}
