// A member of a consumer group: node group_member.js <bootstrap> <group> <topic>
// The same lines as tests/clients/group_member.py.
'use strict'

const { Kafka, logLevel } = require('kafkajs')

const [bootstrap, groupId, topic] = process.argv.slice(2)
const kafka = new Kafka({ clientId: 'ottla-test', brokers: [bootstrap], logLevel: logLevel.NOTHING, retry: { initialRetryTime: 100, maxRetryTime: 500 } })
const consumer = kafka.consumer({ groupId, sessionTimeout: 2000, heartbeatInterval: 300, rebalanceTimeout: 4000, metadataMaxAge: 500, maxWaitTimeInMs: 100 })
const tell = (what, value) => console.log(JSON.stringify({ [what]: value }))

consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
  tell('assigned', (payload.memberAssignment[Object.keys(payload.memberAssignment)[0]] || []).slice().sort((a, b) => a - b))
})
consumer.on(consumer.events.REBALANCING, () => tell('assigned', []))

async function main () {
  await consumer.connect()
  await consumer.subscribe({ topic: topic.startsWith('^') ? new RegExp(topic) : topic, fromBeginning: true })
  await consumer.run({
    autoCommit: false,
    eachBatch: async ({ batch, resolveOffset, commitOffsetsIfNecessary, uncommittedOffsets, heartbeat }) => {
      for (const message of batch.messages) {
        tell('read', [batch.partition, Number(message.offset), message.value.toString()])
        resolveOffset(message.offset)
      }
      await commitOffsetsIfNecessary(uncommittedOffsets())
      tell('committed', true)
      await heartbeat()
    }
  })
}

process.on('SIGTERM', async () => {
  await consumer.disconnect()
  process.exit(0)
})
main().catch(error => { console.error(error); process.exit(1) })
