import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Transactions in a loop through Kafka's own producer: one record to each partition, then the end.
 *
 * <p>Arguments: bootstrap, topic, its partitions, scenario, producers, transactions of each, seed,
 * then settings of the producers. The last line of the output is JSON: what was committed, and how
 * often each step failed with which exception.
 */
public class TransactionLoops {
    static final int ODD_ONE_IN = 25;
    static final int LATE_MS = 1500;
    static final ConcurrentMap<String, AtomicInteger> errors = new ConcurrentHashMap<>();
    static final AtomicInteger committed = new AtomicInteger();
    static final AtomicInteger aborted = new AtomicInteger();

    final Properties settings = new Properties();
    final String topic;
    final int partitions;
    final String scenario;
    final String name;
    final int transactions;
    final Random chance;
    KafkaProducer<String, String> producer;
    String step = "";

    TransactionLoops(String[] words, int number) {
        topic = words[1];
        partitions = Integer.parseInt(words[2]);
        scenario = words[3];
        name = topic + "-java-" + number;
        transactions = Integer.parseInt(words[5]);
        chance = new Random(Long.parseLong(words[6]) + number);
        settings.put("bootstrap.servers", words[0]);
        settings.put("transactional.id", name);
        settings.put("linger.ms", "0");
        for (int i = 7; i < words.length; i++) {
            String[] setting = words[i].split("=", 2);
            settings.put(setting[0], setting[1]);
        }
    }

    public static void main(String[] words) throws Exception {
        List<Thread> threads = new ArrayList<>();
        for (int number = 0; number < Integer.parseInt(words[4]); number++) {
            threads.add(new Thread(new TransactionLoops(words, number)::run));
        }
        for (Thread thread : threads) {
            thread.start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
        StringBuilder kinds = new StringBuilder();
        for (Map.Entry<String, AtomicInteger> kind : new TreeMap<>(errors).entrySet()) {
            kinds.append(kinds.isEmpty() ? "" : ", ");
            kinds.append(String.format("\"%s\": %d", kind.getKey(), kind.getValue().get()));
        }
        System.out.printf(
            "{\"committed\": %d, \"aborted\": %d, \"errors\": {%s}}%n",
            committed.get(), aborted.get(), kinds);
        System.exit(0);
    }

    void run() {
        for (int number = 0; number < transactions; number++) {
            try {
                if (producer == null) {
                    step = "initTransactions";
                    producer = newProducer();
                    producer.initTransactions();
                }
                transact(number);
            } catch (Exception failure) {
                failed(failure);
            }
        }
        if (producer != null) {
            producer.close();
        }
    }

    void transact(int number) throws Exception {
        step = "beginTransaction";
        producer.beginTransaction();
        step = "send";
        for (int partition = 0; partition < partitions; partition++) {
            producer.send(new ProducerRecord<>(topic, partition, name, name + " " + number));
        }
        boolean odd = number % ODD_ONE_IN == ODD_ONE_IN - 1;
        if (odd && scenario.equals("timeout")) {
            step = "flush";
            producer.flush();
            Thread.sleep(Integer.parseInt(settings.getProperty("transaction.timeout.ms")) + LATE_MS);
            end(true, "late commitTransaction");
        } else if (odd && scenario.equals("fenced")) {
            step = "flush";
            producer.flush();
            step = "initTransactions of a rival";
            try (KafkaProducer<String, String> rival = newProducer()) {
                rival.initTransactions();
            }
            end(true, "fenced commitTransaction");
        } else if (scenario.equals("commit") || number % 2 == 0) {
            end(true, "commitTransaction");
        } else {
            int wait_us = chance.nextInt(2000);
            Thread.sleep(wait_us / 1000, wait_us % 1000 * 1000);
            end(false, "abortTransaction");
        }
    }

    void end(boolean commit, String name) {
        step = name;
        if (commit) {
            producer.commitTransaction();
            committed.incrementAndGet();
        } else {
            producer.abortTransaction();
            aborted.incrementAndGet();
        }
    }

    KafkaProducer<String, String> newProducer() {
        return new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
    }

    /** Counted once by its step and innermost cause; a producer that cannot go on is replaced. */
    void failed(Exception failure) {
        Throwable cause = failure;
        while (cause.getCause() != null) {
            cause = cause.getCause();
        }
        String kind = step + ": " + cause.getClass().getSimpleName();
        if (errors.computeIfAbsent(kind, any -> new AtomicInteger()).incrementAndGet() <= 3) {
            System.err.println(name + ": " + kind + ": " + cause.getMessage());
        }
        try {
            producer.abortTransaction();
        } catch (Exception fatal) {
            producer.close(Duration.ZERO);
            producer = null;
        }
    }
}
